package path

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl/internal/pmtu"
	"gobtl/hotel"
	"gobtl/internal/mono"
)

// Time is an instant in nanoseconds on the owner's axis.
type Time = mono.Time

const (
	// roundTrip stands for a round trip that was not measured yet.
	roundTrip = 10 * time.Millisecond
	// pongsMax bounds the Pings of a peer that are answered within an interval of pongsEvery.
	pongsMax   = 32
	pongsEvery = 10 * time.Millisecond
)

// Path is what is known of the path to one peer. The zero value is one without a search.
type Path struct {
	pmtu.Search
	doubt doubt
	room  hotel.Room // of the search's timer; 0: it does not run
	// pongs counts the Pings answered since pongsAt.
	pongsAt Time
	pongs   uint8
	near    bool // the first answers came so soon that there is no need to measure round trips
	beganAt Time // when the search began
	trip    *trip
}

// doubt identifies a doubt of the path by its begin, since, with the same instant on the axis
// without pauses.
type doubt struct{ since, unpaused Time }

// Searching says whether the search has a next step.
func (p *Path) Searching() bool { return p.room != 0 }

// MayPong says whether a Ping of the peer may be answered now.
func (p *Path) MayPong(now Time) bool {
	if now.Sub(p.pongsAt) >= pongsEvery {
		p.pongs, p.pongsAt = 0, now
	}
	return p.pongs < pongsMax
}

// Ponged counts an answered Ping.
func (p *Path) Ponged() { p.pongs++ }

// Silence is how a peer has answered lately.
type Silence struct {
	Quiet     time.Duration // since anything was heard of it
	Acked     time.Duration // since it acknowledged something
	DeadAfter time.Duration // for how long it may owe an answer
}

// Host carries out what Paths decides.
type Host[E any] interface {
	// Clock is the present instant, and Now is it on the axis without pauses.
	Clock() Time
	Now() Time
	Random() uint64
	At(slot uint32) E
	Connected(ep E) bool
	// RoundTrip is the round trip to the peer, 0 if it is not known, and its deviation.
	RoundTrip(ep E) (trip, deviation time.Duration)
	Silence(ep E) Silence
	// Ping sends a Ping of a size, if there is room.
	Ping(ep E, nonce uint64, sizeBytes int)
	// Use has datagrams of up to a size sent from now on.
	Use(ep E, sizeBytes int)
	// EndNarrow ends an endpoint whose path carries only small packets, not the base size.
	EndNarrow(ep E, baseBytes int)
}

// Paths has the searches of an owner's endpoints.
type Paths[E any] struct {
	host   Host[E]
	of     func(E) (p *Path, slot uint32)
	timers *hotel.Hotel[uint32]
}

// Init begins for at most endpointsMax endpoints. Of returns an endpoint's Path and its place.
func (s *Paths[E]) Init(
	host Host[E], of func(E) (*Path, uint32), endpointsMax int,
) (err error) {
	s.host, s.of = host, of
	s.timers, err = hotel.New[uint32](hotel.Config{Rooms: endpointsMax})
	return err
}

// Len is the number of timers that run.
func (s *Paths[E]) Len() int { return s.timers.Len() }

// Deadline is when the first timer expires.
func (s *Paths[E]) Deadline() Time { return s.timers.Deadline() }

// Begin starts the search of a connection that both sides have confirmed, for sizes up to most.
func (s *Paths[E]) Begin(ep E, most int) {
	p, _ := s.of(ep)
	now := s.host.Clock()
	p.Search.Begin(now, most, s.host.Random())
	p.beganAt = now
	s.search(ep)
}

// End ends the search with the connection.
func (s *Paths[E]) End(ep E) {
	p, _ := s.of(ep)
	s.timers.Checkout(p.room)
	p.room = 0
}

// search takes the next step of an endpoint's search.
func (s *Paths[E]) search(ep E) {
	p, _ := s.of(ep)
	if now := s.host.Clock(); p.Due() <= now {
		var sizes [pmtu.ProbesMax + 2]int
		for _, size := range p.Probes(now, s.wait(ep), s.host.Random(), sizes[:0]) {
			s.host.Ping(ep, p.Nonce(size), size)
		}
		if s.Narrow(ep, s.host.Silence(ep).DeadAfter) {
			s.host.EndNarrow(ep, p.Base())
			return
		}
	}
	s.setTimer(ep)
	s.host.Use(ep, p.Size())
}

// wait is the longest time that an answer is expected to take.
func (s *Paths[E]) wait(ep E) time.Duration {
	const deviations = 4
	trip, deviation := s.host.RoundTrip(ep)
	if trip == 0 {
		return 2 * roundTrip
	}
	return 2*trip + deviations*deviation
}

// Narrow says whether the path to the peer has carried only small packets for longer than after,
// not counting time that the owner was stopped. A peer that was silent all that time is dead, not
// narrow: probes of a doubt are never that far apart. If the peer acknowledged a packet meanwhile
// it is reached; then the age of the oldest unacknowledged packet decides. A peer's granted absence
// extends this time too.
func (s *Paths[E]) Narrow(ep E, after time.Duration) bool {
	p, _ := s.of(ep)
	now, since := s.host.Now(), p.DoubtSince()
	if p.doubt.since != since { // it has just begun
		p.doubt = doubt{since, now}
	}
	peer := s.host.Silence(ep)
	silent, reached := peer.Quiet >= peer.DeadAfter*3/4, peer.Acked < after
	return !silent && !reached && p.Search.Narrow(since.Add(now.Sub(p.doubt.unpaused)), after)
}

// setTimer sets the timer for the next step of the search.
func (s *Paths[E]) setTimer(ep E) {
	p, slot := s.of(ep)
	s.timers.Checkout(p.room)
	p.room = 0
	if p.Due() == mono.Never || !s.host.Connected(ep) {
		return
	}
	now := s.host.Clock()
	room, err := s.timers.Checkin(now, p.Due().Sub(now), slot)
	if err != nil {
		panic("path: no room for a timer: " + err.Error()) // as many as endpoints
	}
	p.room = room
}

// Expire goes on with the searches that are due.
func (s *Paths[E]) Expire() {
	for {
		slot, _, ok := s.timers.Evict(s.host.Clock())
		if !ok {
			return
		}
		ep := s.host.At(slot)
		p, _ := s.of(ep)
		p.room = 0
		s.search(ep)
	}
}

// Pong notes that a Ping got through. False means that it is none of the search.
func (s *Paths[E]) Pong(ep E, nonce uint64) bool {
	p, _ := s.of(ep)
	now := s.host.Clock()
	if !p.ProbeAcked(now, nonce) {
		return false
	}
	p.near = p.near || now.Sub(p.beganAt) <= tripNear
	s.search(ep)
	return true
}

// Lost notes a lost packet; several losses raise a doubt of the path. Alone says that the lost copy
// was posted by itself.
func (s *Paths[E]) Lost(ep E, sizeBytes int, alone bool) {
	p, _ := s.of(ep)
	if s.host.Connected(ep) && p.PacketLost(s.host.Clock(), sizeBytes, alone, s.host.Random()) {
		s.search(ep)
	}
}

// GoOn takes the next step of a search whose stage has changed.
func (s *Paths[E]) GoOn(ep E) { s.search(ep) }

// Refused notes that the local system refused a packet as too large. The search continues in the
// next pass, for this may be inside of a send.
func (s *Paths[E]) Refused(ep E, sizeBytes int) {
	p, _ := s.of(ep)
	if p.TooLarge(s.host.Clock(), sizeBytes, s.host.Random()) {
		s.setTimer(ep)
	}
}

// Check verifies the search of a connected endpoint that uses datagrams of a size.
func (s *Paths[E]) Check(ep E, sizeBytes int) error {
	p, slot := s.of(ep)
	switch {
	case p.Search.Check() != nil:
		return p.Search.Check()
	case p.Size() != sizeBytes:
		return fmt.Errorf("packets of %d bytes, searched %d", sizeBytes, p.Size())
	case (p.Due() == mono.Never) != (p.room == 0):
		return fmt.Errorf("search of stage %d, due %d, room %d", p.Stage(), p.Due(), p.room)
	}
	if guest, ok := s.timers.Knock(p.room); p.room != 0 && (!ok || guest != slot) {
		return errors.New("the timer of its search is not its own")
	}
	return nil
}
