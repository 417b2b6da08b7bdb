package reliability

import (
	"fmt"
	"math"
	"math/bits"
	"time"

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
	// blocked: something had to wait until the window was open; the policy forgets it.
	blocked   bool
	patient   bool    // what is in flight is a lone answer, whose ACK may be held back: see lone.go
	withholds bool    // withheld is a packet that has a number and was not sent yet
	withheld  seq.Num // of the window
}

// unlimited is a number of packets that bounds nothing.
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
// nothing: there only the packets count.
type PathState struct {
	// RoundTrip is the smoothed round trip, Deviation its smoothed mean deviation, and Least the
	// least one of the last ten to twenty seconds, all of the channel by which something was measured
	// last, and without the time for which the peer held its ACKs back. 0: nothing was measured yet.
	RoundTrip, Deviation, Least time.Duration
	// WindowPackets is how many packets may be in flight by the congestion window, or the peer's
	// where there is none, or its credits where nothing else counts; InFlightPackets is how many are
	// on their way, without those that have arrived and those that are taken for lost.
	WindowPackets, InFlightPackets int
	// SlowStart says that the congestion window still doubles in each round trip.
	SlowStart bool
}

// noToken stands in the ring for a packet that arrived before an older one.
const noToken = ^Token(0)

// Init sets the first sequence number, the window in packets (a power of two up to WindowMax) and
// the number under which Segments.Owner will tell this sender. It has no credits yet, and recovers
// nothing before Recovery.Join.
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

// raise notes a limit that the peer has told, and whether it is higher than all before.
func (s *Sender) raise(now mono.Time, limit seq.Num) bool {
	if !s.limit.Before(limit) {
		return false
	}
	s.limit, s.raisedAt, s.rested = limit, now, false
	return true
}

// Rest lets go of credits that have lapsed: a sender that has nothing in flight, or only a lone
// answer, and whose limit was not raised for a while, keeps restingCredits, for the peer may have
// given the others to somebody else. It is to be called before something is sent.
func (s *Sender) Rest(now mono.Time) {
	if (s.oldest == s.next || s.patient) && now.Sub(s.raisedAt) >= creditLease {
		s.rest() // seldom: Rest is small enough to be inlined
	}
}

// rest is Rest for who has nothing to wait for, and whose limit was not raised for a while.
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

// updateSendLimit finds out how many packets may be sent until something happens. What was open
// stays so for one packet, which may have been promised a number (the congestion window can shrink,
// the others cannot).
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

// Room is the number of packets that may be admitted now, if what is told to Carry of each of them
// leaves room for the next.
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

// NoteBlocked notes that something has to wait until the window is open: so this is what bounds the
// sender. A congestion window that packets do not fill, because they are paced, grows only then.
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

// Hasten ends the patience for a lone answer, if there is any: from now on its ACK is waited for as
// that of a packet that leaves now. So it is when anything else is sent: the peer's ACK of that
// covers both, and the peer may have got by it what it would ask for again.
func (s *Sender) Hasten(now mono.Time) {
	if s.patient {
		s.patient = false
		s.policy.hasten(s, now)
	}
}

// Post notes that a segment, free or queued, was sent as number n on a channel. An answer is waited
// for at most limit, even if the rules allow more (negative limits count as zero).
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

// Repost notes that a segment which PopResend gave out was sent again, on the data channel. An
// answer is waited for at most limit.
func (s *Sender) Repost(now mono.Time, t Token, limit time.Duration) {
	if s.withholds && s.segment(t).seq == s.withheld {
		s.withholds = false
	}
	s.segs.repost(now, t)
	s.policy.reposted(s, now, t, limit)
	s.updateSendLimit()
}

// OnAck processes a cumulative ACK: upTo is the last number that the peer has received in order,
// credit how many more it is ready for, dup whether the ACK only answers a packet that the peer had
// already. The segments that became free are appended to done; they have no timer and are on the
// resend list no more. Others may have moved to the resend list.
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

// OnSack is OnAck for an acknowledgement that is selective.
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

// onAck processes an ACK that may be an old one. Quiet: it does not say that there is a gap, even
// if it repeats the one before.
func (s *Sender) onAck(now mono.Time, upTo seq.Num, credit uint16, quiet bool, sack *Sack,
	done []Token,
) ([]Token, AckVerdict) {
	if upTo.Sub(s.oldest)+1 < 0 { // of a plausible ACK, this does not overflow
		return done, AckOld
	}
	// No credit at all would leave nothing to ask the peer with for more: one packet always goes.
	limit := upTo.Add(1 + max(1, uint32(credit)))
	quiet = s.raise(now, limit) || quiet
	if !s.policy.some() {
		s.updateSendLimit()
		return done, AckIdle
	}
	return s.policy.onAck(s, now, upTo, quiet, sack, done)
}

// sackOK says whether a selective acknowledgement speaks of nothing but packets sent.
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

// Refuse has a packet in flight sent again because the peer has refused it.
func (s *Sender) Refuse(t Token) {
	s.policy.sendAgain(s, t, CauseRefused)
	s.updateSendLimit()
}

// Unheard has all that is in flight sent again at once: the peer took nothing while it did not know
// that it was connected. The path has lost none of it, so the window stays as it is. One that only
// counts has nothing to send again.
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

// windowState is the state of a path of which only the packets count.
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

// CheckRecovery reports the first broken invariant of what is known to have arrived, and of what
// the profile keeps for this sender.
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
