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
	AckNew AckVerdict = iota // acknowledged new packets
	// AckDuplicate means that the ACK repeats the previous ACK while packets are in flight, which
	// signals a gap at the peer.
	AckDuplicate
	AckIdle  // repeats the previous ACK without signalling a gap
	AckOld   // an older ACK, overtaken by a later one
	AckBogus // acknowledges packets never sent: ignored
	AckLie   // acknowledges a packet that was held back: see Sender.Withhold
)

// Sender is the send side of one peer, with the packets in flight and their limits. A zero Sender
// must be initialised by Init before use. The fields oldest and next are called n_a (acknowledged)
// and n_t (to transmit) in usnic.
type Sender struct {
	segs      *Segments
	policy    policy
	ring      []Token // the segment of each number in flight; a power of two, grown on demand
	marks     marks   // marks of the same numbers; empty, or as long as the ring
	oldest    seq.Num // oldest unacknowledged; next if there is none
	next      seq.Num // next to send
	limit     seq.Num // first number beyond the credits
	sendLimit seq.Num // first number that may not be sent now
	window    uint32
	number    uint32
	sacked    int32   // packets of the window that have arrived before an older one
	withheld  seq.Num // number of the packet that was held back
	bytes     int     // bytes in flight, as reported by the caller
	bytesMax  int     // limit of bytes in flight: see BoundBytes
	raisedAt  mono.Time
	rested    bool // half of the credits were given up since raisedAt, or none was raised yet
	// blocked says that a packet had to wait for the send window to open. The policy sets the field
	// blocked to false again.
	blocked   bool
	patient   bool // a lone reply is in flight, whose ACK may be delayed: see lone.go
	withholds bool // the packet numbered withheld was not sent
	selective bool // the peer sends selective ACKs; only with the profile adaptive
}

// unlimited is the number of packets or bytes that means "no limit".
const unlimited = math.MaxInt32

// Sack is the selective part of an acknowledgement.
type Sack struct {
	Words  []uint64      // bit i of word w: packet ack+2+64w+i has arrived
	Last   seq.Num       // the packet that arrived last
	Delay  time.Duration // how long ago packet Last arrived
	Unread time.Duration // how long packet Last and the ACK may have waited for processes
	Copies uint32        // duplicates that the peer has received, modulo 2^32
}

// sackAhead is the distance from the cumulative ACK to the number of the first bit of a selective
// acknowledgement.
const sackAhead = 2

// PathState describes the path from a sender to its peer. The profiles usnic and lossless measure
// no times. Of the fields of a PathState, the profiles usnic and lossless set none but the numbers
// of packets.
type PathState struct {
	// RoundTrip is the smoothed round trip, and Deviation is the smoothed mean deviation.
	// Least is the least round trip in the past ten to twenty seconds. The fields RoundTrip,
	// Deviation and Least describe the channel that was measured most recently, without the peer's
	// ACK delay. A RoundTrip of 0 means that there is no round-trip sample.
	RoundTrip, Deviation, Least time.Duration
	// WindowPackets is the congestion window in packets. Without a congestion window,
	// WindowPackets is the size of the send window to the peer, or the number of credits if there
	// is no send window. InFlightPackets is the number of packets in transit. Packets that are
	// known to have arrived or were declared lost are not in transit.
	WindowPackets, InFlightPackets int
	// SlowStart says that the congestion window doubles in each round trip.
	SlowStart bool
}

// In the ring of a Sender, noToken stands for a packet that arrived earlier than a packet with a
// lower number.
const noToken = ^Token(0)

// Init sets the first sequence number, the send window in packets (a power of two up to WindowMax),
// and the number that Segments.Owner returns for this Sender. After Init, the sender has neither
// credits (see Grant) nor loss recovery (see Recovery.Join).
func (s *Sender) Init(number uint32, first seq.Num, window int) {
	*s = Sender{
		oldest: first, next: first, limit: first, sendLimit: first, window: uint32(window),
		number: number, rested: true, bytesMax: unlimited,
	}
}

// Grant sets the credits of a new connection, which is the number of packets that the peer can
// receive. Grant never lowers the limit of the sender.
func (s *Sender) Grant(credit uint16) {
	s.limit = s.limit.Max(s.oldest.Add(uint32(credit)))
	s.updateSendLimit()
}

// The method raise sets a credit limit announced by the peer, and reports whether the limit is
// higher than all earlier limits.
func (s *Sender) raise(now mono.Time, limit seq.Num) bool {
	if !s.limit.Before(limit) {
		return false
	}
	s.limit, s.raisedAt, s.rested = limit, now, false
	return true
}

// Rest gives up expired credits, and must be called before each send. The credits expire if the
// credit limit was not raised for the time creditLease and no packet is in flight, other than a
// lone reply (a packet whose ACK may be delayed). A sender whose credits have expired keeps the few
// credits that restingCredits returns, because the peer may have granted the other credits to other
// senders.
func (s *Sender) Rest(now mono.Time) {
	if (s.oldest == s.next || s.patient) && now.Sub(s.raisedAt) >= creditLease {
		s.rest() // seldom: Rest is small enough to be inlined
	}
}

// The method rest is the part of Rest that runs only if credits have expired.
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

// updateSendLimit computes the number of packets that may be sent until the next event of the
// Sender.
func (s *Sender) updateSendLimit() {
	room := min(max(s.limit.Sub(s.next), 0), int32(s.window)-s.next.Sub(s.oldest))
	most := s.policy.allows(s)
	if s.next.Before(s.sendLimit) {
		most = max(most, 1)
	}
	room = min(room, most)
	s.sendLimit = s.next.Add(uint32(room))
}

// Open reports whether the windows and the credits allow another packet.
func (s *Sender) Open() bool { return s.next.Before(s.sendLimit) && s.bytes < s.bytesMax }

// Room is the number of packets that may be sent now. The caller must check that the sizes of the
// packets (Carry) do not exceed the byte limit.
func (s *Sender) Room() int {
	if s.bytes >= s.bytesMax {
		return 0
	}
	return int(max(s.sendLimit.Sub(s.next), 0))
}

// RoomOf works like Room, for packets of packetBytes bytes each.
func (s *Sender) RoomOf(packetBytes int) int {
	room := s.Room()
	if s.bytesMax == unlimited || room == 0 {
		return room
	}
	return min(room, (s.bytesMax-s.bytes+packetBytes-1)/packetBytes)
}

// NoteBlocked records that a packet has to wait for the send window to open. While the pacer keeps
// the congestion window from being full, the congestion window grows only if NoteBlocked was
// called.
func (s *Sender) NoteBlocked() { s.blocked = true }

// InFlight is the number of unacknowledged packets.
func (s *Sender) InFlight() int { return int(s.next-s.oldest) - int(s.sacked) }

func (s *Sender) segment(t Token) *segment { return &s.segs.segs[t] }

// The method named at returns the segment of a sequence number in the send window. The result of at
// is noToken for a packet that arrived earlier than a packet with a lower number.
func (s *Sender) at(n seq.Num) Token { return s.ring[uint32(n)&uint32(len(s.ring)-1)] }

// Size is the window in packets.
func (s *Sender) Size() int { return int(s.window) }

// Window returns the oldest unacknowledged sequence number and the next number to send. The two
// numbers are equal if nothing is in flight.
func (s *Sender) Window() (oldest, next seq.Num) { return s.oldest, s.next }

// Admit gives a segment the next sequence number. The caller may call Admit only if Open returns
// true. After sending the segment, the caller calls Post.
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

// AdmitRun works like Admit, for several segments, and returns the sequence number of the first
// segment. The number of segments passed to AdmitRun must not exceed the result of Room.
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

// grow doubles the ring of segments in flight.
func (s *Sender) grow() {
	s.policy.begin(s)
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

// Number returns the number of the Sender, which the caller passed to Init.
func (s *Sender) Number() uint32 { return s.number }

// Hasten ends the extended time-out of a lone reply, which is a packet whose ACK the peer may
// delay. After Hasten, the timer of the lone reply runs as if the reply were an ordinary packet
// sent at the time now. The caller calls Hasten when another packet is sent, because the peer's
// ACK of that packet also covers the lone reply.
func (s *Sender) Hasten(now mono.Time) {
	if s.patient {
		s.patient = false
		s.policy.hasten(s, now)
	}
}

// Post records that a free or queued segment was sent with number n on a channel. The time-out for
// the ACK of the segment is at most the argument limit, even if the rules allow a longer time-out.
// A negative time-out limit counts as zero.
func (s *Sender) Post(now mono.Time, t Token, n seq.Num, c Channel, limit time.Duration) {
	s.Hasten(now)
	s.segs.post(now, t, s.number, n, c)
	s.policy.posted(s, now, n, 1, c, limit)
}

// PostRun works like Post, for segments that were sent together with consecutive numbers from n on.
func (s *Sender) PostRun(now mono.Time, run []Token, n seq.Num, c Channel, limit time.Duration) {
	s.Hasten(now)
	for i, t := range run {
		s.segs.post(now, t, s.number, n.Add(uint32(i)), c)
	}
	s.policy.posted(s, now, n, len(run), c, limit)
}

// Repost records the retransmission, on the data channel, of a segment that PopResend
// returned, with a time-out of at most limit.
func (s *Sender) Repost(now mono.Time, t Token, limit time.Duration) {
	if s.withholds && s.segment(t).seq == s.withheld {
		s.withholds = false
	}
	s.segs.repost(now, t)
	s.policy.reposted(s, now, t, limit)
	s.updateSendLimit()
}

// OnAck processes a cumulative ACK. The argument upTo of OnAck is the last sequence number that
// the peer has received in order. The argument credit of OnAck is the number of packets after
// upTo that the peer can receive. The argument dup of OnAck is true if the ACK merely answers a
// duplicate packet. OnAck appends the freed segments to done. The freed segments have no running
// timer, and are not on the retransmission list. OnAck may move other segments to the
// retransmission list.
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

// OnSack works like OnAck, for a selective acknowledgement.
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

// onAck processes an ACK, which may be older than an ACK that was already processed. If the
// argument quiet of onAck is true, the ACK does not signal a gap, even if it repeats the previous
// ACK.
func (s *Sender) onAck(now mono.Time, upTo seq.Num, credit uint16, quiet bool, sack *Sack,
	done []Token,
) ([]Token, AckVerdict) {
	if upTo.Sub(s.oldest)+1 < 0 { // no overflow with a plausible ACK
		return done, AckOld
	}
	limit := upTo.Add(1 + max(1, uint32(credit)))
	quiet = s.raise(now, limit) || quiet
	if !s.policy.some() {
		s.updateSendLimit()
		return done, AckIdle
	}
	return s.policy.onAck(s, now, upTo, quiet, sack, done)
}

// sackOK reports whether a selective acknowledgement covers only packets that were sent.
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

// Refuse queues a packet in flight for retransmission, because the peer has refused the packet.
func (s *Sender) Refuse(t Token) {
	s.policy.sendAgain(s, t, CauseRefused)
	s.updateSendLimit()
}

// Unheard queues all packets in flight for immediate retransmission, because the peer did not know
// the connection when the packets arrived, and has dropped them. Unheard does not change the
// congestion window, because the path has not lost the packets.
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

// Plausible reports whether an ACK can belong to this connection. A plausible ACK covers no packets
// that were not sent, and may be older than other ACKs.
func (s *Sender) Plausible(ack seq.Num) bool { return ack.Before(s.next) }

// Token returns the Token of the packet in flight with the sequence number n. Token returns false
// if no packet with this number is in flight.
func (s *Sender) Token(n seq.Num) (Token, bool) {
	if n.Before(s.oldest) || !n.Before(s.next) {
		return 0, false
	}
	t := s.at(n)
	return t, t != noToken
}

// Abort frees all segments in flight because the peer is gone, and appends the freed segments to
// done.
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
	s.ring, s.marks, s.sacked, s.bytes, s.withholds = nil, nil, 0, 0, false
	s.patient = false
	return done
}

// Path returns the estimates of the path to the peer.
func (s *Sender) Path() PathState {
	return s.policy.path(s)
}

// windowState returns the PathState of a profile that does not measure the path.
func (s *Sender) windowState() PathState {
	window := int(s.window)
	if s.window == unlimited {
		window = int(max(s.limit.Sub(s.oldest), 0))
	}
	return PathState{WindowPackets: window, InFlightPackets: s.InFlight()}
}

// Check reports the first broken invariant of the send window.
func (s *Sender) Check() error {
	if n := s.next.Sub(s.oldest); n < 0 || uint32(n) > s.window {
		return fmt.Errorf("reliability: window [%d, %d) of at most %d", s.oldest, s.next, s.window)
	}
	for n := s.oldest; n != s.next; n++ {
		t, ok := s.Token(n)
		if !ok {
			continue // the packet has arrived: CheckRecovery counts such packets
		}
		owner, got := s.segs.Owner(t)
		if owner != s.number || got != n || s.segs.State(t) != Posted && s.segs.State(t) != Resend {
			return fmt.Errorf("reliability: number %d of sender %d: segment %d is %v, number %d of %d",
				n, s.number, t, s.segs.State(t), got, owner)
		}
	}
	return s.CheckRecovery()
}

// CheckRecovery returns an error for the first invariant that does not hold. CheckRecovery checks
// the records of arrived packets and the profile's state for this Sender.
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
