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
	// AckDuplicate means that the ACK repeats the previous ACK while packets are in flight, and so
	// signals that a packet is missing at the peer.
	AckDuplicate
	AckIdle  // repeats the previous ACK without signalling a gap
	AckOld   // an older ACK, overtaken by a later one
	AckBogus // acknowledges packets never sent: ignored
	AckLie   // acknowledges a packet that was held back: see Sender.Withhold
)

// Sender is the sending side of the connection to one peer, with the packets in flight and the
// limits on their number and bytes. A zero Sender must not be used before a call of Init. The
// fields "oldest" and "next" correspond to the variables n_a (acknowledged) and n_t (to transmit)
// of Open MPI's usnic BTL.
type Sender struct {
	segs      *Segments
	policy    policy
	ring      []Token     // the segment of each number in flight; a power of two, grown on demand
	board     *scoreboard // marks of the same numbers; nil before a packet is lost or overtaken
	oldest    seq.Num     // oldest unacknowledged; next if there is none
	next      seq.Num     // next to send
	limit     seq.Num     // first number beyond the credits
	sendLimit seq.Num     // first number that may not be sent now
	window    uint32
	number    uint32
	sacked    int32   // packets in the window that have arrived before an older one
	withheld  seq.Num // number of the packet that was held back
	bytes     int     // bytes in flight, as reported by the caller
	bytesMax  int     // limit of bytes in flight: see BoundBytes
	raisedAt  mono.Time
	rested    bool // half of the credits were given up since raisedAt, or raisedAt is unset
	// The field "blocked" says whether NoteBlocked was called in the present round trip.
	blocked   bool
	patient   bool // a lone reply is in flight, whose ACK may be delayed: see lone.go
	withholds bool // the packet numbered withheld was not sent
	selective bool // the peer sends selective ACKs; only with the profile adaptive
}

// The constant "unlimited" stands for "no limit" where a number of packets or bytes is expected.
const unlimited = math.MaxInt32

// Sack is the selective part of an acknowledgement.
type Sack struct {
	Words  []uint64      // bit i of word w: packet ack+2+64w+i has arrived
	Last   seq.Num       // the packet that arrived last
	Delay  time.Duration // how long ago packet Last arrived
	Unread time.Duration // longest time that packet Last and the ACK waited for processes
	Copies uint32        // duplicates that the peer has received, modulo 2^32
}

// The first bit in the bitmap of a selective acknowledgement stands for the packet whose number is
// that of the cumulative ACK plus sackAhead.
const sackAhead = 2

// PathState describes the network path from a sender to its peer. The profiles usnic and lossless
// set only the fields WindowPackets and InFlightPackets, because they measure no round trips.
type PathState struct {
	// RoundTrip is the smoothed round trip, and Deviation is its smoothed mean deviation (as in RFC
	// 6298). Least is the lowest round trip that was measured in the past ten to twenty seconds. The
	// fields RoundTrip, Deviation and Least describe the channel that was measured last, and do not
	// include the peer's ACK delay. Before the first measurement of a round trip, the field RoundTrip
	// is 0.
	RoundTrip, Deviation, Least time.Duration
	// WindowPackets is the congestion window in packets. Without a congestion window, WindowPackets is
	// the size of the send window. Without a congestion window and a send window, WindowPackets is the
	// number of credits. InFlightPackets is the number of sent packets that are neither known to have
	// arrived nor declared lost.
	WindowPackets, InFlightPackets int
	// SlowStart says whether the sender is in slow start, in which the congestion window doubles in
	// each round trip.
	SlowStart bool
}

// In the ring of a Sender, noToken stands for a packet that has arrived before a packet with a
// lower number.
const noToken = ^Token(0)

// Init sets the first sequence number, the send window in packets (a power of two, at most
// WindowMax), and the Sender's own number, which Segments.Owner returns. After Init, the caller
// must give credits to the Sender (see Grant) and connect it with the loss recovery (see
// Recovery.Join).
func (s *Sender) Init(number uint32, first seq.Num, window int) {
	*s = Sender{
		oldest: first, next: first, limit: first, sendLimit: first, window: uint32(window),
		number: number, rested: true, bytesMax: unlimited,
	}
}

// Grant sets the first credits of a Sender to the credits from the handshake, which are the number
// of packets that the peer can receive. Grant never lowers the sender's credit limit.
func (s *Sender) Grant(credit uint16) {
	s.limit = s.limit.Max(s.oldest.Add(uint32(credit)))
	s.updateSendLimit()
}

// The method "raise" raises the credit limit to the given limit, but never lowers it, and reports
// whether it has raised the credit limit.
func (s *Sender) raise(now mono.Time, limit seq.Num) bool {
	if !s.limit.Before(limit) {
		return false
	}
	s.limit, s.raisedAt, s.rested = limit, now, false
	return true
}

// Rest gives up credits that have expired. The caller must call Rest before each transmission of
// new packets. Credits expire when the peer has not raised the credit limit for the time
// creditLease, and no packet except a lone reply (a packet whose ACK may be delayed) is in flight.
// A sender keeps only a few of its expired credits (see restingCredits), because the peer can have
// granted the expired credits to different senders.
func (s *Sender) Rest(now mono.Time) {
	if (s.oldest == s.next || s.patient) && now.Sub(s.raisedAt) >= creditLease {
		s.rest() // seldom: Rest is small enough to be inlined
	}
}

// The method "rest" does the work of Rest after the credits have expired.
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

// updateSendLimit computes the first sequence number that may not be sent at present, from the send
// window, the credits and the policy.
func (s *Sender) updateSendLimit() {
	room := min(max(s.limit.Sub(s.next), 0), int32(s.window)-s.next.Sub(s.oldest))
	most := int32(unlimited) // packets that the policy permits
	if a := s.policy.adaptive; a == nil {
		if shared := s.policy.begins(s); shared != nil {
			most = shared.first
		}
	} else if !a.fixed {
		most = min(a.room(s), a.pacer.room(s.next))
	}
	if s.next.Before(s.sendLimit) {
		most = max(most, 1)
	}
	room = min(room, most)
	s.sendLimit = s.next.Add(uint32(room))
}

// Open reports whether the send window, the congestion window and the credits permit the
// transmission of a new packet at present.
func (s *Sender) Open() bool { return s.next.Before(s.sendLimit) && s.bytes < s.bytesMax }

// Room returns how many packets may be sent at present, without regard to their sizes. Besides the
// result of Room, the caller must observe the byte limit (see BoundBytes).
func (s *Sender) Room() int {
	if s.bytes >= s.bytesMax {
		return 0
	}
	return int(max(s.sendLimit.Sub(s.next), 0))
}

// RoomOf returns how many packets of packetBytes bytes each may be sent at present, within all
// limits in packets and in bytes.
func (s *Sender) RoomOf(packetBytes int) int {
	room := s.Room()
	if s.bytesMax == unlimited || room == 0 {
		return room
	}
	return min(room, (s.bytesMax-s.bytes+packetBytes-1)/packetBytes)
}

// NoteBlocked records that a packet has to wait because the limits of the Sender do not permit its
// transmission yet. If the pacer, and not the congestion window, has limited the sender in a round
// trip, the congestion window grows only if NoteBlocked was called in this round trip.
func (s *Sender) NoteBlocked() { s.blocked = true }

// InFlight returns the number of unacknowledged packets.
func (s *Sender) InFlight() int { return int(s.next-s.oldest) - int(s.sacked) }

func (s *Sender) segment(t Token) *segment { return &s.segs.segs[t] }

// The method "at" returns the Token of the packet with sequence number n in the send window. For a
// packet that has arrived out of order, the method "at" returns noToken.
func (s *Sender) at(n seq.Num) Token { return s.ring[uint32(n)&uint32(len(s.ring)-1)] }

// Size returns the size of the send window in packets.
func (s *Sender) Size() int { return int(s.window) }

// Window returns the oldest unacknowledged sequence number, and the sequence number of the next new
// packet. The results "oldest" and "next" of Window are equal if no packet is in flight.
func (s *Sender) Window() (oldest, next seq.Num) { return s.oldest, s.next }

// Admits reports whether the caller may call Admit. When Open returns true, the caller can reserve
// the next sequence number for a packet that it sends later. While a sequence number is reserved,
// Admits returns true, unless the connection ends. Open can return false before the reserved number
// is used, because an ACK can lower the byte limit, and because refused packets count as bytes in
// flight again when they are retransmitted.
func (s *Sender) Admits() bool { return s.next.Before(s.sendLimit) }

// Admit gives a segment the next sequence number. The caller may call Admit only if Open has
// returned true since the previous packet was admitted (see Admits). After sending the segment, the
// caller calls Post.
func (s *Sender) Admit(t Token) seq.Num {
	if !s.Admits() {
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

// AdmitRun gives several segments consecutive sequence numbers, and returns the lowest of these
// numbers. The number of segments in the argument "run" of AdmitRun must not exceed the result of
// Room.
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

// grow doubles the size of the ring of segments in flight. For the first packet of a Sender, grow
// allocates the ring and the Sender's state of the recovery profile.
func (s *Sender) grow() {
	s.policy.begin(s)
	bigger := make([]Token, max(8, 2*len(s.ring)))
	for n := s.oldest; n != s.next; n++ {
		bigger[uint32(n)&uint32(len(bigger)-1)] = s.at(n)
	}
	s.ring, s.board = bigger, s.board.grown(len(bigger), s.oldest, s.next)
}

// Number returns the number of the Sender, which the caller passed to Init.
func (s *Sender) Number() uint32 { return s.number }

// Hasten ends the longer time-out of a lone reply (a packet whose ACK the peer is allowed to
// delay). After Hasten, the lone reply has the time-out of an ordinary packet sent at the time
// "now". The caller must call Hasten when it sends a packet after a lone reply, because the peer
// does not delay the ACK of this packet, and this ACK covers the lone reply as well.
func (s *Sender) Hasten(now mono.Time) {
	if s.patient {
		s.patient = false
		s.policy.adaptive.hasten(s, now)
	}
}

// Post records that a segment in the state Free or Queued was sent with the sequence number n on
// channel c. The argument "limit" of Post is an upper bound for the segment's time-out, which
// applies in addition to the bound in Rules. A negative upper bound for a segment's time-out counts
// as zero.
func (s *Sender) Post(now mono.Time, t Token, n seq.Num, c Channel, limit time.Duration) {
	s.Hasten(now)
	s.segs.post(now, t, s.number, n, c)
	s.policy.posted(s, now, n, 1, c, limit)
}

// PostRun works like Post, for several segments with consecutive sequence numbers, beginning with
// n, that were sent together.
func (s *Sender) PostRun(now mono.Time, run []Token, n seq.Num, c Channel, limit time.Duration) {
	s.Hasten(now)
	for i, t := range run {
		s.segs.post(now, t, s.number, n.Add(uint32(i)), c)
	}
	s.policy.posted(s, now, n, len(run), c, limit)
}

// Repost records that a segment, which PopResend has returned, was retransmitted on the data
// channel. The argument "limit" of Repost is an upper bound for the segment's next time-out.
func (s *Sender) Repost(now mono.Time, t Token, limit time.Duration) {
	if s.withholds && s.segment(t).seq == s.withheld {
		s.withholds = false
	}
	s.segs.repost(now, t)
	if a := s.policy.adaptive; a != nil {
		a.reposted(s, now, t, limit)
	} else {
		s.segs.usnic.checkin(now, t, limit)
	}
	s.updateSendLimit()
}

// OnAck processes a cumulative ACK. The argument upTo of OnAck is the highest sequence number that
// the peer has received in order. The argument "credit" of OnAck is the number of packets with
// higher sequence numbers that the peer can receive. The argument "dup" of OnAck says whether the
// ACK merely answers a duplicate packet. OnAck frees the segments of acknowledged packets, stops
// the timers of these segments, and appends their Tokens to the slice "done". If OnAck concludes
// that packets are lost, it queues the segments of these packets for retransmission.
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

// onAck processes a plausible ACK (see Plausible), which can be older than an ACK that was already
// processed. If the argument "quiet" of onAck is true, the ACK does not count as a sign of a lost
// packet, even if it repeats the previous ACK. The argument "sack" of onAck is the selective part
// of the ACK, or nil if the ACK has none. onAck frees the segments of acknowledged packets, appends
// the Tokens of these segments to the slice "done", and queues lost packets for retransmission.
func (s *Sender) onAck(now mono.Time, upTo seq.Num, credit uint16, quiet bool, sack *Sack,
	done []Token,
) ([]Token, AckVerdict) {
	if upTo.Sub(s.oldest)+1 < 0 { // no overflow with a plausible ACK
		return done, AckOld
	}
	limit := upTo.Add(1 + max(1, uint32(credit)))
	quiet = s.raise(now, limit) || quiet
	if s.policy.none(s) {
		s.updateSendLimit()
		return done, AckIdle
	}
	switch a := s.policy.adaptive; {
	case a == nil: // usnic ignores the selective part
		return s.segs.usnic.onAck(s, now, upTo, quiet, done)
	case sack != nil:
		return a.onSack(s, now, upTo, sack, done)
	default:
		return a.onPlainAck(s, now, upTo, quiet, done)
	}
}

// sackOK reports whether the selective part of an ACK covers only packets that were sent.
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

// Refuse must be called when a Nack of the peer has refused a packet in flight, and queues this
// packet for retransmission.
func (s *Sender) Refuse(t Token) {
	s.policy.sendAgain(s, t, CauseRefused)
	s.updateSendLimit()
}

// Unheard queues all packets in flight for immediate retransmission. The caller calls Unheard if
// the peer has dropped the packets in flight because it did not know the connection yet. Unheard
// leaves the congestion window unchanged, because the packets were not lost by congestion.
func (s *Sender) Unheard() {
	if s.policy.none(s) {
		return
	}
	for n := s.oldest; n != s.next; n++ {
		if t := s.at(n); t != noToken {
			s.policy.sendAgain(s, t, CauseLost)
		}
	}
	s.updateSendLimit()
}

// Plausible reports whether an ACK covers only packets that were sent. Plausible also returns true
// if the Sender has already processed an ACK with a higher sequence number than "ack".
func (s *Sender) Plausible(ack seq.Num) bool { return ack.Before(s.next) }

// Token returns the Token of the packet with sequence number n, and reports whether packet n is in
// flight.
func (s *Sender) Token(n seq.Num) (Token, bool) {
	if n.Before(s.oldest) || !n.Before(s.next) {
		return 0, false
	}
	t := s.at(n)
	return t, t != noToken
}

// Abort frees all segments in flight when the connection to the peer has ended, and appends their
// Tokens to done.
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
	s.ring, s.board, s.sacked, s.bytes, s.withholds = nil, nil, 0, 0, false
	s.patient = false
	return done
}

// Path returns the measured state of the path to the peer.
func (s *Sender) Path() PathState {
	if a := s.policy.adaptive; a != nil {
		return a.path(s)
	}
	if shared := s.policy.begins(s); shared != nil {
		return shared.begin(s).path(s)
	}
	return s.windowState()
}

// windowState returns the PathState for a profile that measures no round trips.
func (s *Sender) windowState() PathState {
	window := int(s.window)
	if s.window == unlimited {
		window = int(max(s.limit.Sub(s.oldest), 0))
	}
	return PathState{WindowPackets: window, InFlightPackets: s.InFlight()}
}

// Check returns an error for the first invariant of the send window that does not hold, or nil if
// all of them hold.
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

// CheckRecovery returns an error if an invariant of the Sender's loss recovery does not hold, and
// nil otherwise. CheckRecovery checks the marks of packets that arrived out of order, and the
// profile's state.
func (s *Sender) CheckRecovery() error {
	if s.bytes < 0 {
		return fmt.Errorf("reliability: %d bytes in flight", s.bytes)
	}
	if s.policy.none(s) {
		return nil
	}
	sacked := int32(0)
	for n := s.oldest; n != s.next; n++ {
		here := s.at(n) == noToken
		if here {
			sacked++
		}
		if early, _ := s.board.marked(n); early != here {
			return fmt.Errorf("reliability: packet %d arrived early: %t, marked: %t", n, here, early)
		}
	}
	if sacked != s.sacked {
		return fmt.Errorf("reliability: %d packets arrived early, counted %d", sacked, s.sacked)
	}
	return s.policy.check(s)
}
