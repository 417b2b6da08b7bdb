package reliability

import (
	"fmt"

	"gobtl/hotel"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Token identifies a send segment of a module. A Token is less than the number of send segments
// that was passed to NewRecovery. The caller of package reliability stores the bytes of each
// segment itself, for example in a table with the Token as index.
type Token uint32

// State is the state of a send segment. The package comment has a diagram of the states.
type State uint8

// The four states.
const (
	Free   State = iota // nothing of the segment is in flight
	Queued              // on the to-send list of its endpoint
	Posted              // sent; the segment's or the Sender's timer runs
	Resend              // on the module's resend list
)

func (s State) String() string {
	return [...]string{"free", "queued", "posted", "resend"}[s]
}

// Cause is the reason why a segment is retransmitted.
type Cause uint8

// The causes.
const (
	CauseTimeout Cause = iota // the segment's timer ended
	CauseDupAck               // a duplicate ACK
	CauseRefused              // the peer refused the segment; another packet has its number
	// The causes of retransmission below occur only in the adaptive profile.
	CauseLost  // a later packet has arrived, or the peer did not know the connection yet
	CauseProbe // the first time-out since the latest ACK
	// CauseMemory means that the segment is retransmitted because the peer has refused it for lack of
	// memory.
	CauseMemory
)

// SegmentsMax is the largest number of send segments of a module. SegmentsMax equals
// hotel.MaxRooms, because each segment can need a timer, and a hotel has at most MaxRooms timers.
const SegmentsMax = hotel.MaxRooms

const none = ^uint32(0)

// Channel is the channel of a packet, command or data. Packets on different channels can overtake
// each other, so that the order of arrival shows losses only within a channel.
type Channel uint8

// The channels.
const (
	Command Channel = iota
	Data
	channels
)

type segment struct {
	postedAt mono.Time
	seq      seq.Num
	owner    uint32 // the Sender's number
	prev     uint32 // resend list
	next     uint32
	state    State
	resends  uint8
	cause    Cause // why the segment is on the resend list
	// Only the adaptive profile uses the fields below.
	channel Channel // the channel of the latest copy
	lost    bool    // declared lost; Posted while it waits for the resend budget or memory
	lone    bool    // sent as a lone reply: see lone.go
	// refusedBytes is the size of the packet if the peer has refused it for lack of memory, and 0
	// otherwise.
	refusedBytes uint16
}

// Segments contains the states of all send segments of a module, and the retransmission list, which
// is a FIFO queue of segments.
type Segments struct {
	segs   []segment
	posted int
	head   uint32 // of the resend list
	tail   uint32
	count  int
	// All Senders of the module share the state of their recovery profile, to which either the pointer
	// "usnic" (for the profiles usnic and lossless) or the pointer "adaptive" points. The other
	// pointer is nil.
	usnic    *usnic
	adaptive *adaptiveShared
}

// Counts are the counters of the profile adaptive.
type Counts struct {
	// Spurious is the number of spurious retransmissions, which peers with selective ACKs report to
	// the sender. If the network duplicates packets while the sender retransmits packets, these
	// duplicates count as spurious retransmissions as well.
	Spurious uint64
	// Throttled is the number of lost packets whose retransmission was delayed because the
	// retransmission budget was used up.
	Throttled uint64
}

func newSegments(count int) (Segments, error) {
	if count < 1 || count > SegmentsMax {
		return Segments{}, fmt.Errorf("%w: %d segments (1 to %d)", ErrRules, count, SegmentsMax)
	}
	return Segments{segs: make([]segment, count), head: none, tail: none}, nil
}

// State returns a segment's state.
func (s *Segments) State(t Token) State { return s.segs[t].state }

// Owner returns the number of the Sender that has sent the segment, and the segment's sequence
// number. The caller may call Owner only for a segment in the state Posted or Resend.
func (s *Segments) Owner(t Token) (sender uint32, n seq.Num) {
	return s.segs[t].owner, s.segs[t].seq
}

// Resends returns how often the segment has been retransmitted.
func (s *Segments) Resends(t Token) int { return int(s.segs[t].resends) }

// PostedAt returns the time of the latest transmission of a segment. PostedAt may be called for a
// segment that has already been freed.
func (s *Segments) PostedAt(t Token) mono.Time { return s.segs[t].postedAt }

// Queue changes the state of a free segment to Queued. The list of queued segments is kept by the
// caller, not by Segments.
func (s *Segments) Queue(t Token) { s.move(t, Free, Queued) }

// Unqueue changes the state of a segment from Queued to Free. The caller calls Unqueue when it has
// decided not to send the segment.
func (s *Segments) Unqueue(t Token) { s.move(t, Queued, Free) }

func (s *Segments) move(t Token, from, to State) {
	g := &s.segs[t]
	if g.state != from {
		panic("reliability: segment is " + g.state.String() + ", not " + from.String())
	}
	g.state = to
}

func (s *Segments) post(now mono.Time, t Token, owner uint32, n seq.Num, c Channel) {
	p := &s.segs[t]
	if p.state > Queued {
		panic("reliability: segment posted twice")
	}
	p.owner, p.seq, p.resends = owner, n, 0
	p.channel, p.lost, p.lone, p.refusedBytes = c, false, false, 0
	p.state, p.postedAt = Posted, now
	s.posted++
}

// repost records that a segment, which PopResend has returned, was retransmitted on the data
// channel.
func (s *Segments) repost(now mono.Time, t Token) {
	p := &s.segs[t]
	if p.state != Resend || p.next != uint32(t) {
		panic("reliability: segment reposted that was not popped")
	}
	p.resends = min(p.resends, 254) + 1
	p.channel, p.state, p.postedAt = Data, Posted, now
	s.posted++
}

func (s *Segments) again(t Token, cause Cause) {
	s.posted--
	s.enlist(t, cause)
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
		return // popped already
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

// InFlight returns the number of segments in the states Posted and Resend.
func (s *Segments) InFlight() int { return s.posted + s.count }

// ResendsWaiting returns the length of the retransmission list.
func (s *Segments) ResendsWaiting() int { return s.count }

// PopResend removes and returns the oldest segment of the retransmission list. After PopResend, the
// caller retransmits the segment and calls Sender.Repost. If the caller cannot send the segment at
// present, it calls Defer instead.
func (s *Segments) PopResend() (t Token, cause Cause, ok bool) {
	if s.head == none {
		return 0, 0, false
	}
	t = Token(s.head)
	g := &s.segs[t]
	s.delist(t)
	g.next = uint32(t)
	return t, g.cause, true
}

// Defer puts a segment, which PopResend has returned, back at the end of the retransmission list.
func (s *Segments) Defer(t Token) {
	g := &s.segs[t]
	if g.state != Resend || g.next != uint32(t) {
		panic("reliability: segment deferred that was not popped")
	}
	s.enlist(t, g.cause)
}

// The method "release" frees a segment in the state Posted or Resend. The caller of the method
// "release" must stop the segment's timer.
func (s *Segments) release(t Token, p *segment) {
	switch p.state {
	case Posted:
		s.posted--
	case Resend:
		s.delist(t)
	default:
		panic("reliability: segment acknowledged while " + p.state.String())
	}
	p.state = Free
}

func (s *Segments) check() error {
	posted, listed := 0, 0
	for i := range s.segs {
		g := &s.segs[i]
		switch g.state {
		case Free, Queued:
		case Posted:
			posted++
		case Resend:
			if g.next != uint32(i) {
				listed++
			}
		}
	}
	if posted != s.posted {
		return fmt.Errorf("reliability: %d posted segments, %d counted", posted, s.posted)
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
