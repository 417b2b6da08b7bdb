package path

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl/internal/pmtu"
	"gobtl/hotel"
	"gobtl/internal/mono"
)

// Time is an instant in nanoseconds on the module's clock.
type Time = mono.Time

const (
	// roundTrip is the assumed round trip to a peer until a round trip is measured.
	roundTrip = 10 * time.Millisecond
	// pongsMax is the maximum number of a peer's Pings that are answered within pongsEvery.
	pongsMax   = 32
	pongsEvery = 10 * time.Millisecond
)

// Path is the state of the path to one peer. The zero value has no search.
type Path struct {
	pmtu.Search
	doubt doubt
	room  hotel.Room // number of the search's timer, or 0 if no timer runs
	// pongs counts the Pings that were answered after the time pongsAt.
	pongsAt Time
	pongs   uint8
	near    bool // the path is so short that round trips need not be measured
	beganAt Time // when the search began
	trip    *trip
}

// doubt identifies a test of the size in use by the time when the test began, on the timers' clock
// (since) and on the clock that does not advance while the process is suspended (unpaused).
type doubt struct{ since, unpaused Time }

// Searching reports whether the path MTU search has a next step.
func (p *Path) Searching() bool { return p.room != 0 }

// MayPong reports whether a Ping of the peer may be answered now.
func (p *Path) MayPong(now Time) bool {
	if now.Sub(p.pongsAt) >= pongsEvery {
		p.pongs, p.pongsAt = 0, now
	}
	return p.pongs < pongsMax
}

// Ponged counts a Ping that was answered.
func (p *Path) Ponged() { p.pongs++ }

// Silence holds the times since the latest answers of a peer.
type Silence struct {
	Quiet     time.Duration // time since the peer's latest packet
	Acked     time.Duration // time since the peer's latest acknowledgement
	DeadAfter time.Duration // longest time for which an answer of the peer may be outstanding
}

// Host carries out what Paths decides.
type Host[E any] interface {
	// Clock is the present time of the timers. Now is the present time on a clock that does not
	// advance while the process is suspended.
	Clock() Time
	Now() Time
	Random() uint64
	At(slot uint32) E
	Connected(ep E) bool
	// RoundTrip returns the round trip to the peer, or 0 if it is unknown, and its deviation.
	RoundTrip(ep E) (trip, deviation time.Duration)
	Silence(ep E) Silence
	// Ping sends a Ping of a size in bytes, if a buffer is free.
	Ping(ep E, nonce uint64, sizeBytes int)
	// Use sets the largest size of later datagrams to the peer.
	Use(ep E, sizeBytes int)
	// EndNarrow ends an endpoint whose path drops all packets of the base size, but carries smaller
	// packets.
	EndNarrow(ep E, baseBytes int)
}

// Paths holds the path MTU searches of a module's endpoints.
type Paths[E any] struct {
	host   Host[E]
	of     func(E) (p *Path, slot uint32)
	timers *hotel.Hotel[uint32]
}

// Init prepares Paths for at most endpointsMax endpoints. The function of returns an endpoint's
// Path and slot.
func (s *Paths[E]) Init(
	host Host[E], of func(E) (*Path, uint32), endpointsMax int,
) (err error) {
	s.host, s.of = host, of
	s.timers, err = hotel.New[uint32](hotel.Config{Rooms: endpointsMax})
	return err
}

// Len is the number of running timers.
func (s *Paths[E]) Len() int { return s.timers.Len() }

// Deadline returns the time at which the first timer expires.
func (s *Paths[E]) Deadline() Time { return s.timers.Deadline() }

// Begin starts the path MTU search of a connection that both sides have established. The argument
// most of Begin is the largest size in bytes to search.
func (s *Paths[E]) Begin(ep E, most int) {
	p, _ := s.of(ep)
	now := s.host.Clock()
	p.Search.Begin(now, most, s.host.Random())
	p.beganAt = now
	s.search(ep)
}

// End stops the path MTU search when the connection ends.
func (s *Paths[E]) End(ep E) {
	p, _ := s.of(ep)
	s.timers.Checkout(p.room)
	p.room = 0
}

// search takes the next step of an endpoint's path MTU search, if this step is due, and sets the
// timer.
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

// wait returns the longest time that an answer to a probe should take.
func (s *Paths[E]) wait(ep E) time.Duration {
	const deviations = 4
	trip, deviation := s.host.RoundTrip(ep)
	if trip == 0 {
		return 2 * roundTrip
	}
	return 2*trip + deviations*deviation
}

// Narrow reports whether the path has carried only small packets for longer than the duration
// after. Time for which the process was suspended is not counted. A path is not narrow if the
// peer was silent for as long as a live peer may be. A path on which the peer has recently
// acknowledged a packet of at least the base size is not narrow. If a peer may be silent for
// longer than usual, the duration after is extended by the additional time.
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

// Expire takes the next step of all path MTU searches whose timers have expired.
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

// Pong records that a Ping was answered. Pong returns false if the nonce belongs to no probe of the
// search.
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

// Lost records a lost packet. Several losses in succession start a new test of the path MTU. The
// argument alone of Lost is true if the lost packet was sent by itself, not coalesced with other
// datagrams.
func (s *Paths[E]) Lost(ep E, sizeBytes int, alone bool) {
	p, _ := s.of(ep)
	if s.host.Connected(ep) && p.PacketLost(s.host.Clock(), sizeBytes, alone, s.host.Random()) {
		s.search(ep)
	}
}

// GoOn takes the next step of a path MTU search after its stage has changed.
func (s *Paths[E]) GoOn(ep E) { s.search(ep) }

// Refused records that the local system has refused a packet as too large. The path MTU search
// continues in the next poll, because Refused may be called from within a send.
func (s *Paths[E]) Refused(ep E, sizeBytes int) {
	p, _ := s.of(ep)
	if p.TooLarge(s.host.Clock(), sizeBytes, s.host.Random()) {
		s.setTimer(ep)
	}
}

// Check verifies the path MTU search of a connected endpoint, which sends datagrams of at most
// sizeBytes.
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
