package reliability

import (
	"fmt"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// AckVerdict is what an ACK turned out to be.
type AckVerdict uint8

// Verdicts of Sender.OnAck.
const (
	AckNew       AckVerdict = iota // acknowledged something new
	AckDuplicate                   // the same as before while packets are in flight: a gap at the peer
	AckIdle                        // the same as before, nothing to conclude: idle, or new credits
	AckOld                         // overtaken by a later one
	AckBogus                       // of packets never sent: ignored
)

// Sender is the send side of one peer: the window of packets in flight and its limit. The zero
// value must be given to Init.
type Sender struct {
	segs   *Segments
	ring   []Token // the segment of each number in flight; a power of two, grown on demand
	oldest seq.Num // n_a: oldest unacknowledged
	next   seq.Num // n_t: next to send
	limit  seq.Num // first number beyond the credits
	wall   seq.Num // first number that may not be sent now
	window uint32
	number uint32
	rec    *recovery // of the adaptive profile; nil in the others
}

// noToken stands in the ring for a packet that arrived before an older one.
const noToken = ^Token(0)

// Init sets the module's segments, of which this sender admits some, the first sequence number, the
// window in packets (a power of two up to WindowMax) and the number under which Segments.Owner will
// tell this sender. It has no credits yet. One that only counts packets needs no segments (nil).
func (s *Sender) Init(segs *Segments, number uint32, first seq.Num, window int) {
	*s = Sender{
		segs: segs, oldest: first, next: first, limit: first, wall: first, window: uint32(window),
		number: number,
	}
}

// Grant sets the credits of a new connection: packets that the peer is ready for. Limits never
// retreat.
func (s *Sender) Grant(credit uint16) {
	s.limit = s.limit.Max(s.oldest.Add(uint32(credit)))
	s.settle()
}

// settle finds out how many packets may be sent until something happens. What was open stays so for
// one packet, which may have been promised a number (the congestion window can shrink, the others
// cannot).
func (s *Sender) settle() {
	room := min(max(s.limit.Sub(s.next), 0), int32(s.window)-s.next.Sub(s.oldest))
	if r := s.rec; r != nil && !r.fixed {
		least := int32(0)
		if s.Open() {
			least = 1
		}
		open := min(r.room(s), r.pacer.room(s))
		room = min(room, max(open, least))
	}
	s.wall = s.next.Add(uint32(room))
}

// Open says whether the windows and the credits allow another packet.
func (s *Sender) Open() bool { return s.next.Before(s.wall) }

// Room is the number of packets that may be admitted now.
func (s *Sender) Room() int { return int(max(s.wall.Sub(s.next), 0)) }

// Waits notes that something has to wait until the window is open: so this is what bounds the
// sender. A congestion window that packets do not fill, because they are paced, grows only then.
func (s *Sender) Waits() {
	if s.rec != nil {
		s.rec.waits = true
	}
}

// InFlight is the number of packets not acknowledged.
func (s *Sender) InFlight() int {
	if s.rec != nil {
		return int(s.next-s.oldest) - int(s.rec.sacked)
	}
	return int(s.next - s.oldest)
}

// segment returns the state of one of the module's segments.
func (s *Sender) segment(t Token) *segment { return &s.segs.segs[t] }

// at returns the segment of a number of the window, or noToken.
func (s *Sender) at(n seq.Num) Token { return s.ring[uint32(n)&uint32(len(s.ring)-1)] }

// Size is the window in packets.
func (s *Sender) Size() int { return int(s.window) }

// Window returns n_a and n_t.
func (s *Sender) Window() (oldest, next seq.Num) { return s.oldest, s.next }

// Admit gives a segment the next sequence number. The window must be Open. The caller starts the
// segment's timer with Segments.Post.
func (s *Sender) Admit(t Token) seq.Num {
	if !s.Open() {
		panic("reliability: packet admitted to a closed window")
	}
	if int(s.next-s.oldest) == len(s.ring) {
		s.grow()
	}
	n := s.next
	s.ring[uint32(n)&uint32(len(s.ring)-1)] = t
	s.next++
	return n
}

// AdmitRun is Admit for several segments, for which the window must have Room. It returns the
// number of the first one.
func (s *Sender) AdmitRun(run []Token) seq.Num {
	if len(run) > s.Room() {
		panic("reliability: packets admitted to a closed window")
	}
	for int(s.next-s.oldest)+len(run) > len(s.ring) {
		s.grow()
	}
	first, mask := s.next, uint32(len(s.ring)-1)
	for i, t := range run {
		s.ring[(uint32(first)+uint32(i))&mask] = t
	}
	s.next = first.Add(uint32(len(run)))
	return first
}

// grow doubles the ring: an idle peer costs a few words, a busy one what it needs.
func (s *Sender) grow() {
	bigger := make([]Token, max(8, 2*len(s.ring)))
	for n := s.oldest; n != s.next; n++ {
		bigger[uint32(n)&uint32(len(bigger)-1)] = s.ring[uint32(n)&uint32(len(s.ring)-1)]
	}
	s.ring = bigger
}

// Number returns what Init was given.
func (s *Sender) Number() uint32 { return s.number }

// OnAck processes a cumulative ACK: ack is the last number that the peer has received in order,
// credit how many more it is ready for, dup whether the ACK only answers a packet that the peer had
// already. The segments that became free are appended to done; they left the hotel or the resend
// list. The oldest segment may move to the resend list (AckDuplicate with resend true).
func (s *Sender) OnAck(now mono.Time, ack seq.Num, credit uint16, dup bool,
	done []Token,
) (_ []Token, verdict AckVerdict, resend bool) {
	if !s.Plausible(ack) {
		return done, AckBogus, false
	}
	steps := ack.Sub(s.oldest) + 1 // of a plausible ACK, this does not overflow
	if steps < 0 {
		return done, AckOld, false
	}
	// No credit at all would leave nothing to ask the peer with for more: one packet always goes.
	limit := ack.Add(1 + max(1, uint32(credit)))
	grew := s.limit.Before(limit)
	s.limit = s.limit.Max(limit)
	if s.rec != nil {
		return s.onPlainAck(now, ack, grew || dup, done)
	}
	if steps > 0 {
		mask := uint32(len(s.ring) - 1)
		for ; steps > 0; steps-- {
			t := s.ring[uint32(s.oldest)&mask]
			s.segs.Acked(t)
			done = append(done, t)
			s.oldest++
		}
		s.settle()
		return done, AckNew, false
	}
	if grew {
		s.settle()
	}
	if s.oldest == s.next || grew || dup {
		return done, AckIdle, false
	}
	// usnic's rule: the first duplicate ACK sends the oldest segment again at once.
	return done, AckDuplicate, s.segs.fastRetransmit(now, s.at(s.oldest))
}

// Plausible says whether an ACK can be of this connection: of packets sent, however old.
func (s *Sender) Plausible(ack seq.Num) bool { return ack.Before(s.next) }

// Token returns the segment of a number in flight; false if the number is not in flight.
func (s *Sender) Token(n seq.Num) (Token, bool) {
	if n.Before(s.oldest) || !n.Before(s.next) {
		return 0, false
	}
	t := s.at(n)
	return t, t != noToken
}

// Abort acknowledges everything in flight to nobody: the segments become free and are appended to
// done. For a peer that is gone.
func (s *Sender) Abort(done []Token) []Token {
	for ; s.oldest != s.next; s.oldest++ {
		t := s.at(s.oldest)
		if t == noToken {
			continue
		}
		s.segs.Acked(t)
		done = append(done, t)
	}
	s.limit, s.wall = s.next, s.next
	s.ring = nil
	s.abandon()
	return done
}

// Check reports the first broken invariant of the window: its bounds, and that every number in it
// is one segment that is posted or to be resent under that very number.
func (s *Sender) Check() error {
	if n := s.next.Sub(s.oldest); n < 0 || uint32(n) > s.window {
		return fmt.Errorf("reliability: window [%d, %d) of at most %d", s.oldest, s.next, s.window)
	}
	for n := s.oldest; n != s.next; n++ {
		t, ok := s.Token(n)
		if !ok && s.rec != nil {
			continue // has arrived
		}
		owner, got := s.segs.Owner(t)
		if owner != s.number || got != n || s.segs.State(t) != Posted && s.segs.State(t) != Resend {
			return fmt.Errorf("reliability: number %d of sender %d: segment %d is %v, number %d of %d",
				n, s.number, t, s.segs.State(t), got, owner)
		}
	}
	return s.CheckRecovery()
}
