package reliability

import (
	"fmt"
	"time"

	"gobtl/hotel"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Token names a send segment: a number below the count given to NewSegments. The caller keeps the
// segment's bytes under the same number.
type Token uint32

// State is what a send segment is doing; see the package's diagram.
type State uint8

// The four states.
const (
	Free   State = iota // nothing of it is in flight
	Queued              // on its endpoint's to-send list
	Posted              // sent, its timer runs: it has a hotel room
	Resend              // on the module's resend list
)

func (s State) String() string {
	return [...]string{"free", "queued", "posted", "resend"}[s]
}

// Cause is why a segment is sent again.
type Cause uint8

// The causes.
const (
	CauseTimeout Cause = iota // its timer ended
	CauseDupAck               // a duplicate ACK
	CauseRefused              // the peer refused it; something else is sent under its number
	// Of the adaptive profile:
	CauseLost  // a packet sent later has arrived
	CauseProbe // the first time-out since something was acknowledged
)

const none = ^uint32(0)

type segment struct {
	room     hotel.Room
	postedAt mono.Time
	seq      seq.Num
	owner    uint32 // the Sender's number
	prev     uint32 // resend list
	next     uint32
	state    State
	resends  uint8
	cause    Cause // why it is on the resend list
	// Of the adaptive profile:
	channel Channel // that the latest copy took
	lost    bool    // taken for lost; posted while it waits for the resend budget
}

// Segments is the state of all send segments of a module, with the hotel that times them and the
// list of those to be sent again, oldest first.
type Segments struct {
	rules  Rules
	segs   []segment
	hotel  *hotel.Hotel[Token]   // a room for each segment; with adaptive rules, one for all
	clocks *hotel.Hotel[*Sender] // of the adaptive profile: a room for each sender
	posted int                   // segments without a room of their own
	head   uint32
	tail   uint32
	count  int
	counts Counts
}

// Counts are what the adaptive profile counts beside the resends themselves.
type Counts struct {
	// Spurious is the number of packets that were sent again and had arrived before, as the peers tell
	// that send selective ACKs. (What the network copies meanwhile counts too.)
	Spurious uint64
	// Throttled is the number of packets found lost that had to wait for the resend budget.
	Throttled uint64
}

// Counts returns what was counted so far.
func (s *Segments) Counts() Counts { return s.counts }

// NewAdaptive is NewSegments for the adaptive rules and up to peers Senders: these have timers, the
// segments have none. Every one of them must be given to Adapt after Init.
func NewAdaptive(count, peers int, rules Rules) (*Segments, error) {
	g, err := NewSegments(count, rules)
	if err != nil {
		return nil, err
	}
	if g.hotel, err = hotel.New[Token](hotel.Config{Rooms: 1}); err != nil {
		return nil, err
	}
	g.clocks, err = hotel.New[*Sender](hotel.Config{Rooms: peers, TickNs: clockTickNs})
	return g, err
}

// clockTickNs is how exact the timers of the adaptive profile are: much finer than a round trip.
const clockTickNs = 1 << 13

// NewSegments allocates the state of count segments, all free. Nothing is allocated later.
func NewSegments(count int, rules Rules) (*Segments, error) {
	if count < 1 || uint64(count) >= uint64(none) {
		return nil, fmt.Errorf("%w: %d segments", ErrRules, count)
	}
	if err := rules.Validate(); err != nil {
		return nil, err
	}
	h, err := hotel.New[Token](hotel.Config{Rooms: count})
	if err != nil {
		return nil, err
	}
	return &Segments{rules: rules, segs: make([]segment, count), hotel: h, head: none, tail: none}, nil
}

// State returns a segment's state.
func (s *Segments) State(t Token) State { return s.segs[t].state }

// Owner returns the number of the Sender that admitted the segment, and its sequence number; both
// are meaningful while the segment is posted or to be resent.
func (s *Segments) Owner(t Token) (sender uint32, n seq.Num) {
	return s.segs[t].owner, s.segs[t].seq
}

// Resends returns how often the segment has been sent again.
func (s *Segments) Resends(t Token) int { return int(s.segs[t].resends) }

// Queue puts a free segment on its endpoint's to-send list (which the caller keeps).
func (s *Segments) Queue(t Token) { s.move(t, Free, Queued) }

// Unqueue takes a queued segment back, unsent.
func (s *Segments) Unqueue(t Token) { s.move(t, Queued, Free) }

func (s *Segments) move(t Token, from, to State) {
	g := &s.segs[t]
	if g.state != from {
		panic("reliability: segment is " + g.state.String() + ", not " + from.String())
	}
	g.state = to
}

// Post starts the timer of a free or queued segment that was admitted under n by the Sender
// numbered owner. It waits at most limit even if the rules allow more (negative limits count as
// zero).
func (s *Segments) Post(now mono.Time, t Token, owner uint32, n seq.Num, limit time.Duration) {
	g := &s.segs[t]
	if g.state > Queued {
		panic("reliability: segment posted twice")
	}
	g.owner, g.seq, g.resends = owner, n, 0
	s.checkin(now, t, limit)
}

// Repost restarts the timer of a segment that PopResend gave out and the caller has sent again.
func (s *Segments) Repost(now mono.Time, t Token, limit time.Duration) {
	g := &s.segs[t]
	if g.state != Resend || g.next != uint32(t) {
		panic("reliability: segment reposted that was not popped")
	}
	if g.resends < 255 {
		g.resends++
	}
	s.checkin(now, t, limit)
}

func (s *Segments) checkin(now mono.Time, t Token, limit time.Duration) {
	g := &s.segs[t]
	room, err := s.hotel.Checkin(now, max(0, min(s.stay(g), limit)), t)
	if err != nil {
		// One room per segment and one segment per room: full means that a room was leaked.
		panic("reliability: no room for a segment: " + err.Error())
	}
	g.room, g.postedAt, g.state = room, now, Posted
}

// stay is the back-off: the time-out doubles with every resend until it reaches its maximum. The
// maximum is halved for the comparison, because the doubled time-out might not fit.
func (s *Segments) stay(g *segment) time.Duration {
	if s.rules.ResendTimeout > s.rules.ResendTimeoutMax>>g.resends {
		return s.rules.ResendTimeoutMax
	}
	return s.rules.ResendTimeout << g.resends
}

// Expire moves the segments whose time is up to the resend list and returns how many.
func (s *Segments) Expire(now mono.Time) int {
	n := 0
	for {
		t, _, ok := s.hotel.Evict(now)
		if !ok {
			return n
		}
		s.enlist(t, CauseTimeout)
		n++
	}
}

// Deadline is when Expire, or ExpireNext, next has work; mono.Never if no timer runs.
func (s *Segments) Deadline() mono.Time {
	if s.clocks != nil {
		return s.clocks.Deadline()
	}
	return s.hotel.Deadline()
}

// fastRetransmit moves a posted segment to the resend list because of a duplicate ACK.
func (s *Segments) fastRetransmit(now mono.Time, t Token) bool {
	g := &s.segs[t]
	if g.state != Posted || g.resends > 0 && now.Sub(g.postedAt) < s.rules.DupAckHold {
		return false
	}
	s.hotel.Checkout(g.room)
	s.enlist(t, CauseDupAck)
	return true
}

// ResendNow moves a posted segment to the resend list because its packet was refused.
func (s *Segments) ResendNow(t Token) {
	g := &s.segs[t]
	if g.state != Posted {
		return // waits there already
	}
	s.hotel.Checkout(g.room)
	s.enlist(t, CauseRefused)
}

func (s *Segments) enlist(t Token, cause Cause) {
	g := &s.segs[t]
	g.state, g.cause = Resend, cause
	g.prev, g.next = s.tail, none
	if s.tail == none {
		s.head = uint32(t)
	} else {
		s.segs[s.tail].next = uint32(t)
	}
	s.tail = uint32(t)
	s.count++
}

func (s *Segments) delist(t Token) {
	g := &s.segs[t]
	if g.next == uint32(t) {
		return // popped already: it points at itself
	}
	if g.prev == none {
		s.head = g.next
	} else {
		s.segs[g.prev].next = g.next
	}
	if g.next == none {
		s.tail = g.prev
	} else {
		s.segs[g.next].prev = g.prev
	}
	s.count--
}

// InFlight is the number of segments posted or to be sent again.
func (s *Segments) InFlight() int { return s.hotel.Len() + s.posted + s.count }

// ResendsWaiting is the length of the resend list.
func (s *Segments) ResendsWaiting() int { return s.count }

// PopResend takes the oldest segment off the resend list. The caller sends it again and calls
// Repost, or Defer if it cannot be sent now.
func (s *Segments) PopResend() (t Token, cause Cause, ok bool) {
	if s.head == none {
		return 0, 0, false
	}
	t = Token(s.head)
	g := &s.segs[t]
	s.delist(t)
	g.next = uint32(t) // points at itself: in the caller's hands, Acked must not unlink it again
	return t, g.cause, true
}

// Defer puts a popped segment back at the end of the resend list.
func (s *Segments) Defer(t Token) {
	g := &s.segs[t]
	if g.state != Resend || g.next != uint32(t) {
		panic("reliability: segment deferred that was not popped")
	}
	s.enlist(t, g.cause)
}

// Acked frees a segment in whatever state it is in flight: its timer stops, it leaves the resend
// list.
func (s *Segments) Acked(t Token) {
	s.release(t, &s.segs[t])
}

// release is Acked for a segment that is at hand.
func (s *Segments) release(t Token, g *segment) {
	switch {
	case g.state == Posted && s.clocks != nil:
		s.posted--
	case g.state == Posted:
		s.hotel.Checkout(g.room)
	case g.state == Resend:
		s.delist(t)
	default:
		panic("reliability: segment acknowledged while " + g.state.String())
	}
	g.state, g.room = Free, 0
}

// Check walks all state and reports the first broken invariant. It is for tests and simulators.
func (s *Segments) Check() error {
	posted, listed := 0, 0
	for i := range s.segs {
		g := &s.segs[i]
		switch g.state {
		case Free, Queued:
		case Posted:
			posted++
			if s.clocks != nil {
				break
			}
			if guest, ok := s.hotel.Knock(g.room); !ok || guest != Token(i) {
				return fmt.Errorf("reliability: posted segment %d has no room", i)
			}
		case Resend:
			if g.next != uint32(i) {
				listed++
			}
		}
	}
	if posted != s.hotel.Len()+s.posted {
		return fmt.Errorf("reliability: %d posted segments, %d rooms let, %d counted", posted,
			s.hotel.Len(), s.posted)
	}
	walked := 0
	for i := s.head; i != none && walked <= len(s.segs); i = s.segs[i].next {
		walked++
	}
	if walked != s.count || listed != s.count {
		return fmt.Errorf("reliability: resend list of %d has %d links and %d members",
			s.count, walked, listed)
	}
	return nil
}
