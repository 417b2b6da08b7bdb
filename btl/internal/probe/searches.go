package probe

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
	// pongsMax is the maximum number of Pings of one peer that are answered in each interval
	// pongsEvery.
	pongsMax   = 32
	pongsEvery = 10 * time.Millisecond
)

// Path is the state of the path to one peer. A zero Path has no path MTU search.
type Path struct {
	*search // nil before Paths.Begin, over a reliable fabric, and while "most" is set
	trip    *trip
	// pongs is the number of Pings that were answered since the time pongsAt.
	pongsAt Time
	pongs   uint8
	near    bool // the path is so short that round trips need not be measured
	// wants is a copy of the result of pmtu.Search.WantsDelivered, which is needed for each ACK.
	wants bool
	// most is the datagram size in use if the search is over and its memory was freed, or 0.
	most int32
}

// The type "search" contains the state of a path MTU search.
type search struct {
	pmtu.Search
	doubt   doubt
	room    hotel.Room // number of the search's timer, or 0 if no timer runs
	beganAt Time       // when the search began
}

// The type "doubt" contains the time when a test of the datagram size in use began. The time when
// the test began is stored both on the clock of the timers and on a clock that does not advance
// while the process is suspended.
type doubt struct{ since, unpaused Time }

// Searching reports whether the path MTU search has a next step.
func (p *Path) Searching() bool { return p.search != nil && p.room != 0 }

// Begun reports whether Paths.Begin has started a path MTU search.
func (p *Path) Begun() bool { return p.search != nil || p.most != 0 }

// FirstProbePending reports whether the first probe of a connection is still to be sent, or was
// sent and can still be answered.
func (p *Path) FirstProbePending() bool {
	return !p.Begun() || p.search != nil && p.Search.FirstProbePending()
}

// rest frees the memory of a search that is over.
func (p *Path) rest() { p.most, p.search = int32(p.Size), nil }

// Holes returns how often the path MTU search had to give up the datagram size in use.
func (p *Path) Holes() int {
	if p.search == nil {
		return 0
	}
	return p.Search.Holes()
}

// WantsDelivered reports whether the caller must call Delivered for each packet that the peer
// acknowledges at present.
func (p *Path) WantsDelivered() bool { return p.wants }

// Delivered records the arrival of a packet (see pmtu.Search.Delivered). The caller may call
// Delivered only while WantsDelivered returns true.
func (p *Path) Delivered(now, sentAt Time, sizeBytes int, uncoalesced bool) {
	p.Search.Delivered(now, sentAt, sizeBytes, uncoalesced)
	p.changed()
}

// The method "changed" is called after each change of the search, and updates the field "wants".
func (p *Path) changed() { p.wants = p.Search.WantsDelivered() }

// MayPong reports whether the limit on Pongs allows an answer to a Ping of the peer.
func (p *Path) MayPong(now Time) bool {
	if now.Sub(p.pongsAt) >= pongsEvery {
		p.pongs, p.pongsAt = 0, now
	}
	return p.pongs < pongsMax
}

// Ponged counts a Ping that this side has answered, for the limit on Pongs.
func (p *Path) Ponged() { p.pongs++ }

// Silence contains the times since the latest packet and the latest acknowledgement of a peer.
type Silence struct {
	Quiet     time.Duration // time since the peer's latest packet
	Acked     time.Duration // time since the peer's latest acknowledgement
	DeadAfter time.Duration // longest time for which an answer of the peer can be outstanding
}

// Host carries out the decisions of Paths.
type Host[E any] interface {
	// Clocks returns pointers to two times. The time "unpaused" does not advance while the process is
	// suspended. The time "timers" determines when timers expire.
	Clocks() (unpaused, timers *Time)
	Random() uint64
	At(slot uint32) E
	Connected(ep E) bool
	// RoundTrip returns the round trip to the peer and the mean deviation of this round trip, or 0 if
	// the round trip is unknown.
	RoundTrip(ep E) (trip, deviation time.Duration)
	Silence(ep E) Silence
	// Ping sends a Ping whose datagram has sizeBytes. If no buffer is free, Ping sends nothing.
	Ping(ep E, nonce uint64, sizeBytes int)
	// Use sets the maximum size of all datagrams that will be sent to the peer.
	Use(ep E, sizeBytes int)
	// EndNarrow ends an endpoint whose path drops all packets of the base size, but carries packets
	// below this size.
	EndNarrow(ep E, baseBytes int)
}

// Paths runs the path MTU searches of a module's endpoints.
type Paths[E any] struct {
	host   Host[E]
	now    *Time // unpaused: see Host.Clocks
	clock  *Time // of the timers
	of     func(E) (p *Path, slot uint32)
	timers *hotel.Hotel[uint32]
}

// Init prepares Paths for at most endpointsMax endpoints. The argument "of" of Init is a function
// that returns an endpoint's Path and slot.
func (s *Paths[E]) Init(
	host Host[E], of func(E) (*Path, uint32), endpointsMax int,
) (err error) {
	s.host, s.of = host, of
	s.now, s.clock = host.Clocks()
	s.timers, err = hotel.New[uint32](hotel.Config{Rooms: endpointsMax})
	return err
}

// Len returns the number of running timers.
func (s *Paths[E]) Len() int { return s.timers.Len() }

// Deadline returns the time at which the first timer expires.
func (s *Paths[E]) Deadline() Time { return s.timers.Deadline() }

// Begin starts the path MTU search of a connection that both sides have established. The argument
// "most" of Begin is the largest datagram size, in bytes, that the search tries.
func (s *Paths[E]) Begin(ep E, most int) {
	p, _ := s.of(ep)
	now := *s.clock
	if p.search == nil {
		p.search, p.most = new(search), 0
	}
	p.Search.Begin(now, most, s.host.Random())
	p.beganAt = now
	s.search(ep)
}

// End stops the path MTU search when the connection ends.
func (s *Paths[E]) End(ep E) {
	p, _ := s.of(ep)
	if p.search != nil {
		s.timers.Checkout(p.room)
		p.room = 0
	}
}

// search takes the next step of an endpoint's path MTU search, if this step is due, and sets the
// timer.
func (s *Paths[E]) search(ep E) {
	p, _ := s.of(ep)
	if now := *s.clock; p.Due <= now {
		var sizes [pmtu.ProbesMax + 2]int
		probes := p.Probes(now, s.wait(ep), s.host.Random(), sizes[:0])
		p.changed()
		for _, size := range probes {
			s.host.Ping(ep, p.Nonce(size), size)
		}
		if s.Narrow(ep, s.host.Silence(ep).DeadAfter) {
			s.host.EndNarrow(ep, p.Base)
			return
		}
	}
	s.setTimer(ep)
	s.host.Use(ep, p.Size)
	if p.Over() {
		p.rest()
	}
}

// wait returns the duration from the sending of a probe until the probe counts as lost, if no
// answer arrives.
func (s *Paths[E]) wait(ep E) time.Duration {
	const deviations = 4
	trip, deviation := s.host.RoundTrip(ep)
	if trip == 0 {
		return 2 * roundTrip
	}
	return 2*trip + deviations*deviation
}

// Narrow reports whether the path has carried only small packets for longer than the time "after".
// Narrow does not count time during which the process was suspended. The path to a silent peer does
// not count as narrow, because the peer is possibly dead. If the peer has acknowledged a packet
// within the time "after", its path does not count as narrow.
func (s *Paths[E]) Narrow(ep E, after time.Duration) bool {
	p, _ := s.of(ep)
	if p.search == nil {
		return false
	}
	now, since := *s.now, p.DoubtSince
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
	if p.Due == mono.Never || !s.host.Connected(ep) {
		return
	}
	now := *s.clock
	room, err := s.timers.Checkin(now, p.Due.Sub(now), slot)
	if err != nil {
		panic("probe: no room for a timer: " + err.Error()) // as many as endpoints
	}
	p.room = room
}

// resume allocates the search of a Path again, if the search was over and its memory was freed.
func (s *Paths[E]) resume(p *Path) {
	if p.most != 0 {
		p.search = new(search)
		p.Search.Resume(int(p.most), s.host.Random())
		p.beganAt, p.most = s.clock.Add(-2*tripNear), 0 // no later answer makes the path near
	}
}

// Expire takes the next step of all path MTU searches whose timers have expired.
func (s *Paths[E]) Expire() {
	for {
		slot, _, ok := s.timers.Evict(*s.clock)
		if !ok {
			return
		}
		ep := s.host.At(slot)
		p, _ := s.of(ep)
		p.room = 0
		s.search(ep)
	}
}

// Pong records that a Ping was answered, and reports whether the nonce is that of a probe of the
// search.
func (s *Paths[E]) Pong(ep E, nonce uint64) bool {
	p, _ := s.of(ep)
	now := *s.clock
	if p.search == nil || !p.ProbeAcked(now, nonce) {
		return false
	}
	p.changed()
	p.near = p.near || now.Sub(p.beganAt) <= tripNear
	s.search(ep)
	return true
}

// Lost records a lost packet. Several losses in succession start a new test of the datagram size in
// use. The argument "uncoalesced" of Lost says whether the lost packet was sent alone, and not
// coalesced with more datagrams.
func (s *Paths[E]) Lost(ep E, sizeBytes int, uncoalesced bool) {
	p, _ := s.of(ep)
	if p.search == nil && !pmtu.Tells(sizeBytes, int(p.most)) || !s.host.Connected(ep) {
		return
	}
	s.resume(p)
	doubtful := p.PacketLost(*s.clock, sizeBytes, uncoalesced, s.host.Random())
	p.changed()
	if doubtful {
		s.search(ep)
	}
}

// GoOn takes the next step of a path MTU search, after the field Stage of the search has changed.
func (s *Paths[E]) GoOn(ep E) { s.search(ep) }

// Refused records that the local system has refused a packet as too large. The path MTU search does
// not continue before the next poll, because Refused can be called during a send.
func (s *Paths[E]) Refused(ep E, sizeBytes int) {
	p, _ := s.of(ep)
	s.resume(p)
	if p.search != nil && p.TooLarge(*s.clock, sizeBytes, s.host.Random()) {
		p.changed()
		s.setTimer(ep)
	}
}

// Check verifies the path MTU search of a connected endpoint. The argument sizeBytes of Check is
// the maximum size of the datagrams that the endpoint sends.
func (s *Paths[E]) Check(ep E, sizeBytes int) error {
	p, slot := s.of(ep)
	switch {
	case p.search == nil && int(p.most) == sizeBytes && !p.wants:
		return nil
	case p.search == nil:
		return fmt.Errorf("packets of %d bytes, found %d, ACKs concern it: %v", sizeBytes, p.most,
			p.wants)
	case p.Search.Check() != nil:
		return p.Search.Check()
	case p.wants != p.Search.WantsDelivered():
		return fmt.Errorf("search of stage %d: ACKs concern it: %v", p.Stage, p.wants)
	case p.Size != sizeBytes:
		return fmt.Errorf("packets of %d bytes, searched %d", sizeBytes, p.Size)
	case (p.Due == mono.Never) != (p.room == 0):
		return fmt.Errorf("search of stage %d, due %d, room %d", p.Stage, p.Due, p.room)
	}
	if guest, ok := s.timers.Knock(p.room); p.room != 0 && (!ok || guest != slot) {
		return errors.New("the timer of its search is not its own")
	}
	return nil
}
