package reliability

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// AckVerdict is the classification of an ACK.
type AckVerdict uint8

// Verdicts of Sender.OnAck.
const (
	AckNew       AckVerdict = iota // acknowledged something new
	AckDuplicate                   // the same as before while packets are in flight: a gap at the peer
	AckIdle                        // the same as before, nothing to conclude: idle, or new credits
	AckOld                         // overtaken by a later one
	AckBogus                       // of packets never sent: ignored
	AckLie                         // of a packet that was withheld: see Sender.Withhold
)

// Sender is the send side of one peer: the window of packets in flight and its limit. The zero
// value must be given to Init. Usnic's code calls the ends of the window n_a (acknowledged) and n_t
// (to transmit), and the next number that a Receiver expects n_r; here they are oldest and next.
type Sender struct {
	segs      *Segments
	policy    policy
	ring      []Token // the segment of each number in flight; a power of two, grown on demand
	marks     marks   // of the same numbers; empty, or as long as the ring
	oldest    seq.Num // oldest unacknowledged; next if there is none
	next      seq.Num // next to send
	limit     seq.Num // first number beyond the credits
	sendLimit seq.Num // first number that may not be sent now
	window    uint32
	number    uint32
	sacked    int32 // packets of the window that have arrived before an older one
	bytes     int   // of the packets in flight, as the caller tells
	bytesMax  int   // no packet is sent while they are as many: see BoundBytes
	raisedAt  mono.Time
	rested    bool // half of the credits are let go since raisedAt, or none was raised yet
	// blocked: a packet had to wait for the window to open; the policy resets it.
	blocked   bool
	patient   bool    // what is in flight is a lone answer, whose ACK may be held back: see lone.go
	withholds bool    // withheld is a packet that has a number and was not sent yet
	withheld  seq.Num // of the window
}

// unlimited is the number of packets that means no bound.
const unlimited = math.MaxInt32

// Sack is what a selective acknowledgement adds to the cumulative one.
type Sack struct {
	Words  []uint64      // bit i of word w: packet ack+2+64w+i has arrived
	Last   seq.Num       // the packet that arrived last
	Delay  time.Duration // how long ago
	Unread time.Duration // for how long it, and the ACK, may have waited for processes to look
	Copies uint32        // packets that had arrived before, modulo 2^32
}

// sackAhead is how far from the ack the first bit of a selective acknowledgement is.
const sackAhead = 2

// PathState is what a sender knows of the path to its peer. The usnic and lossless profiles measure
// nothing: only the packet fields are set for them.
type PathState struct {
	// RoundTrip is the smoothed round trip, Deviation its smoothed mean deviation, and Least the
	// least one of the last ten to twenty seconds, all of the channel measured last, and without
	// the peer's ACK delay. 0: no sample yet.
	RoundTrip, Deviation, Least time.Duration
	// WindowPackets is the congestion window in packets, or, without one, the peer's window, or
	// else its credits. InFlightPackets is the number of packets in transit, without those known to
	// have arrived and those declared lost.
	WindowPackets, InFlightPackets int
	// SlowStart says that the congestion window still doubles in each round trip.
	SlowStart bool
}

// noToken marks, in the ring, a packet that arrived before an older one.
const noToken = ^Token(0)

// Init sets the first sequence number, the window in packets (a power of two up to WindowMax) and
// the sender's number for Segments.Owner. The sender has no credits yet, and no loss recovery
// before Recovery.Join.
func (s *Sender) Init(number uint32, first seq.Num, window int) {
	*s = Sender{
		oldest: first, next: first, limit: first, sendLimit: first, window: uint32(window),
		number: number, rested: true, bytesMax: unlimited,
	}
}

// Grant sets the credits of a new connection: packets that the peer is ready for. Limits never
// retreat.
func (s *Sender) Grant(credit uint16) {
	s.limit = s.limit.Max(s.oldest.Add(uint32(credit)))
	s.updateSendLimit()
}

// raise sets a limit announced by the peer, and says whether it is higher than all before.
func (s *Sender) raise(now mono.Time, limit seq.Num) bool {
	if !s.limit.Before(limit) {
		return false
	}
	s.limit, s.raisedAt, s.rested = limit, now, false
	return true
}

// Rest gives up lapsed credits. A sender with nothing in flight (or only a lone answer), whose
// limit was not raised for a while, keeps only restingCredits, as the peer may have granted the
// rest to others. Call Rest before sending.
func (s *Sender) Rest(now mono.Time) {
	if (s.oldest == s.next || s.patient) && now.Sub(s.raisedAt) >= creditLease {
		s.rest() // seldom: Rest is small enough to be inlined
	}
}

// rest is the slow path of Rest: nothing is in flight, and the limit was not raised for a while.
func (s *Sender) rest() {
	keep := s.limit.Sub(s.next)
	if keep <= 0 {
		return
	}
	if !s.rested || keep > earnedFirst {
		keep, s.rested = int32(restingCredits(uint32(keep))), true
	}
	s.limit = s.next.Add(uint32(keep))
	s.updateSendLimit()
}

// updateSendLimit computes the number of packets that may be sent until the next event. An open
// window stays open for one packet, which may have a number reserved (only the congestion window
// can shrink).
func (s *Sender) updateSendLimit() {
	room := min(max(s.limit.Sub(s.next), 0), int32(s.window)-s.next.Sub(s.oldest))
	if s.policy.some() {
		most := s.policy.allows(s)
		if s.next.Before(s.sendLimit) {
			most = max(most, 1)
		}
		room = min(room, most)
	}
	s.sendLimit = s.next.Add(uint32(room))
}

// Open says whether the windows and the credits allow another packet.
func (s *Sender) Open() bool { return s.next.Before(s.sendLimit) && s.bytes < s.bytesMax }

// Room is the number of packets that may be admitted now, provided that their sizes (Carry) leave
// room for them.
func (s *Sender) Room() int {
	if s.bytes >= s.bytesMax {
		return 0
	}
	return int(max(s.sendLimit.Sub(s.next), 0))
}

// RoomOf is Room for packets of that many bytes.
func (s *Sender) RoomOf(packetBytes int) int {
	room := s.Room()
	if s.bytesMax == unlimited || room == 0 {
		return room
	}
	return min(room, (s.bytesMax-s.bytes+packetBytes-1)/packetBytes)
}

// NoteBlocked notes that a packet has to wait for the window to open, so that the window bounds the
// sender. A congestion window that is not full, as packets are paced, grows only after that.
func (s *Sender) NoteBlocked() { s.blocked = true }

// InFlight is the number of packets not acknowledged.
func (s *Sender) InFlight() int { return int(s.next-s.oldest) - int(s.sacked) }

// segment returns the state of one of the module's segments.
func (s *Sender) segment(t Token) *segment { return &s.segs.segs[t] }

// at returns the segment of a number of the window, or noToken.
func (s *Sender) at(n seq.Num) Token { return s.ring[uint32(n)&uint32(len(s.ring)-1)] }

// Size is the window in packets.
func (s *Sender) Size() int { return int(s.window) }

// Window returns the oldest number that is not acknowledged and the next to send; they are equal if
// nothing is in flight.
func (s *Sender) Window() (oldest, next seq.Num) { return s.oldest, s.next }

// Admit gives a segment the next sequence number. The window must be Open. The caller says with
// Post that it was sent.
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
	bigger := Sender{ring: make([]Token, max(8, 2*len(s.ring)))}
	for n := s.oldest; n != s.next; n++ {
		bigger.ring[uint32(n)&uint32(len(bigger.ring)-1)] = s.at(n)
		early, aside := s.marked(n)
		if early {
			bigger.markEarly(n)
		}
		if aside {
			bigger.setAside(n)
		}
	}
	s.ring, s.marks = bigger.ring, bigger.marks
}

// Number returns what Init was given.
func (s *Sender) Number() uint32 { return s.number }

// Hasten ends the longer wait for the ACK of a lone answer: from now on its timer is that of a
// packet sent now. It is called when any other packet is sent: the peer's ACK of that packet covers
// both, and the packet may have satisfied the peer's request, so that no retransmitted request
// would reveal a lost answer.
func (s *Sender) Hasten(now mono.Time) {
	if s.patient {
		s.patient = false
		s.policy.hasten(s, now)
	}
}

// Post notes that a segment, free or queued, was sent as number n on a channel. The time-out for
// its answer is at most limit, even if the rules allow more (negative limits count as zero).
func (s *Sender) Post(now mono.Time, t Token, n seq.Num, c Channel, limit time.Duration) {
	s.Hasten(now)
	s.segs.post(now, t, s.number, n, c)
	s.policy.posted(s, now, n, 1, c, limit)
}

// PostRun is Post for segments sent at once under consecutive numbers from n on.
func (s *Sender) PostRun(now mono.Time, run []Token, n seq.Num, c Channel, limit time.Duration) {
	s.Hasten(now)
	for i, t := range run {
		s.segs.post(now, t, s.number, n.Add(uint32(i)), c)
	}
	s.policy.posted(s, now, n, len(run), c, limit)
}

// Repost notes the retransmission, on the data channel, of a segment that PopResend returned. The
// time-out for its answer is at most limit.
func (s *Sender) Repost(now mono.Time, t Token, limit time.Duration) {
	if s.withholds && s.segment(t).seq == s.withheld {
		s.withholds = false
	}
	s.segs.repost(now, t)
	s.policy.reposted(s, now, t, limit)
	s.updateSendLimit()
}

// OnAck processes a cumulative ACK: upTo is the last number that the peer has received in order,
// credit how many more it is ready for, dup whether the ACK only answers a duplicate packet. The
// freed segments are appended to done; they have no timer, and are off the resend list. Others may
// have moved to the resend list.
func (s *Sender) OnAck(now mono.Time, upTo seq.Num, credit uint16, dup bool,
	done []Token,
) ([]Token, AckVerdict) {
	if !s.Plausible(upTo) {
		return done, AckBogus
	}
	if !s.Honest(upTo) {
		return done, AckLie
	}
	return s.onAck(now, upTo, credit, dup, nil, done)
}

// OnSack is OnAck for a selective acknowledgement.
func (s *Sender) OnSack(now mono.Time, upTo seq.Num, credit uint16, sack *Sack,
	done []Token,
) ([]Token, AckVerdict) {
	if !s.Plausible(upTo) || !s.sackOK(upTo, sack) {
		return done, AckBogus
	}
	if !s.honestSack(upTo, sack) {
		return done, AckLie
	}
	return s.onAck(now, upTo, credit, true, sack, done)
}

// onAck processes an ACK, which may be outdated. quiet says that it does not signal a gap, even if
// it repeats the previous one.
func (s *Sender) onAck(now mono.Time, upTo seq.Num, credit uint16, quiet bool, sack *Sack,
	done []Token,
) ([]Token, AckVerdict) {
	if upTo.Sub(s.oldest)+1 < 0 { // of a plausible ACK, this does not overflow
		return done, AckOld
	}
	// Without any credit no packet could ask the peer for more: one packet may always be sent.
	limit := upTo.Add(1 + max(1, uint32(credit)))
	quiet = s.raise(now, limit) || quiet
	if !s.policy.some() {
		s.updateSendLimit()
		return done, AckIdle
	}
	return s.policy.onAck(s, now, upTo, quiet, sack, done)
}

// sackOK says whether a selective acknowledgement covers only sent packets.
func (s *Sender) sackOK(ack seq.Num, sack *Sack) bool {
	if !sack.Last.Before(s.next) {
		return false
	}
	n := len(sack.Words)
	if n == 0 {
		return true
	}
	top := ack + sackAhead + seq.Num(64*n-1-bits.LeadingZeros64(sack.Words[n-1]))
	return ack.Before(s.oldest-1) || top.Before(s.next)
}

// Refuse queues a packet in flight for retransmission because the peer has refused it.
func (s *Sender) Refuse(t Token) {
	s.policy.sendAgain(s, t, CauseRefused)
	s.updateSendLimit()
}

// Unheard queues all packets in flight for immediate retransmission: the peer dropped them while it
// did not know that it was connected. The path has not lost them, so the window is unchanged. A
// counting Sender has no retransmissions.
func (s *Sender) Unheard() {
	if !s.policy.some() {
		return
	}
	for n := s.oldest; n != s.next; n++ {
		if t := s.at(n); t != noToken {
			s.policy.sendAgain(s, t, CauseLost)
		}
	}
	s.updateSendLimit()
}

// Plausible says whether an ACK can belong to this connection: it covers only sent packets, however
// old.
func (s *Sender) Plausible(ack seq.Num) bool { return ack.Before(s.next) }

// Token returns the segment of a number in flight; false if the number is not in flight.
func (s *Sender) Token(n seq.Num) (Token, bool) {
	if n.Before(s.oldest) || !n.Before(s.next) {
		return 0, false
	}
	t := s.at(n)
	return t, t != noToken
}

// Abort frees all segments in flight, and appends them to done, for a peer that is gone.
func (s *Sender) Abort(done []Token) []Token {
	s.policy.abandon(s)
	for ; s.oldest != s.next; s.oldest++ {
		t := s.at(s.oldest)
		if t == noToken {
			continue
		}
		s.segs.release(t, s.segment(t))
		done = append(done, t)
	}
	s.limit, s.sendLimit = s.next, s.next
	s.ring, s.marks, s.sacked, s.bytes, s.withholds = nil, marks{}, 0, 0, false
	s.patient = false
	return done
}

// Path returns what is known of the path.
func (s *Sender) Path() PathState {
	return s.policy.path(s)
}

// windowState is the PathState of a profile that measures nothing.
func (s *Sender) windowState() PathState {
	window := int(s.window)
	if s.window == unlimited {
		window = int(max(s.limit.Sub(s.oldest), 0))
	}
	return PathState{WindowPackets: window, InFlightPackets: s.InFlight()}
}

// Check reports the first broken invariant of the window: its bounds, and that every number in it
// is one segment that is posted or to be resent under that very number, or has arrived.
func (s *Sender) Check() error {
	if n := s.next.Sub(s.oldest); n < 0 || uint32(n) > s.window {
		return fmt.Errorf("reliability: window [%d, %d) of at most %d", s.oldest, s.next, s.window)
	}
	for n := s.oldest; n != s.next; n++ {
		t, ok := s.Token(n)
		if !ok {
			continue // has arrived: CheckRecovery counts them
		}
		owner, got := s.segs.Owner(t)
		if owner != s.number || got != n || s.segs.State(t) != Posted && s.segs.State(t) != Resend {
			return fmt.Errorf("reliability: number %d of sender %d: segment %d is %v, number %d of %d",
				n, s.number, t, s.segs.State(t), got, owner)
		}
	}
	return s.CheckRecovery()
}

// CheckRecovery reports the first broken invariant of the packets known to have arrived, and of the
// profile's state for this sender.
func (s *Sender) CheckRecovery() error {
	if s.bytes < 0 {
		return fmt.Errorf("reliability: %d bytes in flight", s.bytes)
	}
	if !s.policy.some() {
		return nil
	}
	sacked := int32(0)
	for n := s.oldest; n != s.next; n++ {
		here := s.at(n) == noToken
		if here {
			sacked++
		}
		if early, _ := s.marked(n); early != here {
			return fmt.Errorf("reliability: packet %d arrived early: %t, marked: %t", n, here, early)
		}
	}
	if sacked != s.sacked {
		return fmt.Errorf("reliability: %d packets arrived early, counted %d", sacked, s.sacked)
	}
	return s.policy.check(s)
}
