package reliability

import (
	"fmt"
	"math/bits"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Verdict is the position of a packet's number relative to the receive window.
type Verdict uint8

// Verdicts of Receiver.Check.
const (
	Accept    Verdict = iota // in the window and new
	Duplicate                // in the window, and received before
	Below                    // received in order earlier
	Above                    // beyond the window
)

// Receiver is the receive side of one peer. A zero Receiver must be initialised by Init before use.
type Receiver struct {
	// The ring outOfOrder has a bit for each packet of the window, which says that the packet has
	// arrived out of order. The ring outOfOrder is allocated at the first gap in the sequence
	// numbers, and grows with wider gaps.
	outOfOrder []uint64

	next     seq.Num // next to arrive in order
	limit    seq.Num // first number beyond the credits granted
	told     seq.Num // the highest limit sent to the peer, whose credits may have expired
	window   uint32
	held     uint32 // bits set in outOfOrder
	charged  uint32 // credits that the peer has
	booked   uint32 // buffer slots booked in Credits for these credits
	earned   uint32 // credits that the peer has earned by use
	used     uint32 // credits used since earned was last doubled
	unacked  uint32 // packets accepted since the last ACK
	ackAt    mono.Time
	lastAt   mono.Time     // when the latest packet was accepted
	unread   time.Duration // how long the latest packet may have waited unread
	last     seq.Num       // number of the latest packet
	copies   uint32        // duplicate packets received, modulo 2^32
	answers  uint32        // duplicates since answersAt for which an ACK was due at once
	ackNews  bool          // the pending ACK reports a new packet
	ackLater bool          // the pending ACK is the delayed ACK of a lone reply (lone.go)
	patient  bool          // the pending ACK is of a lone reply only, and the peer waits longer
	departed bool          // the peer is gone and shares no credits
	lapsed   bool          // the credits have expired: see Credits
	short    bool          // granted less than the peer needs, and less than its share
	wants    bool          // granted less than the peer has earned
	asked    bool          // the peer waits for the ACK of everything up to askedFor
	listed   bool          // in the pool's list, between earlier and later
	// Selective says that the peer supports selective acknowledgements. If Selective is true, a
	// gap in the sequence numbers is reported to the peer at once.
	Selective bool
	askedFor  seq.Num
	// usedLately is the number of credits used after the time usedAt. A peer that uses few
	// credits loses earned credits.
	usedLately uint32
	usedAt     mono.Time
	path       time.Duration // round trip to the peer; 0: not known
	raisedAt   mono.Time     // when the limit was last raised
	answersAt  mono.Time
	earlier    *Receiver
	later      *Receiver
	load       load
	refused    refusedPackets
	turns      turns
}

// Init sets the peer's first sequence number, and the window in packets (a power of two).
func (r *Receiver) Init(first seq.Num, window int) {
	*r = Receiver{
		next: first, limit: first, told: first, last: first - 1, window: uint32(window),
		earned: earnedFirst, ackAt: mono.Never, load: load{granted: NoBytesBound},
	}
}

// Check classifies a packet's number, and changes no state. Before accepting the packet, the caller
// must make sure that all higher layers can process it.
func (r *Receiver) Check(n seq.Num) Verdict {
	d := n.Sub(r.next)
	switch {
	case d < 0:
		return Below
	case uint32(d) >= r.window:
		return Above
	case r.held > 0 && r.bit(n):
		return Duplicate
	}
	return Accept
}

// The method bit reports whether packet n of the receive window arrived out of order. The method
// bit may be called only after a packet has arrived out of order.
func (r *Receiver) bit(n seq.Num) bool {
	if uint32(n-r.next) >= r.ringBits() {
		return false
	}
	i := uint32(n) & (r.ringBits() - 1)
	return r.outOfOrder[i/64]&(1<<(i%64)) != 0
}

// ringBits returns the number of packets, from the next packet in order on, that the ring
// outOfOrder covers.
func (r *Receiver) ringBits() uint32 { return 64 * uint32(len(r.outOfOrder)) }

// Accept records a packet that Check found acceptable and the caller has accepted. After Accept,
// ACKs may cover the packet. An ACK becomes due after the delay AckDelay. An ACK is due at once
// when AckEvery packets wait for an ACK (half of AckEvery in the case of Pace), when the waiting
// packets have used a quarter of the credits, or when the peer has used all credits. For a peer
// with selective ACKs, an ACK is also due at once when a gap in the sequence numbers opens or
// closes.
func (r *Receiver) Accept(now mono.Time, n seq.Num, rules *Rules) {
	r.accept(now, n, rules.AckDelay, rules)
}

// The method accept works like Accept, but the ACK becomes due after the given delay instead of
// AckDelay.
func (r *Receiver) accept(now mono.Time, n seq.Num, delay time.Duration, rules *Rules) {
	gap := false
	if n == r.next {
		r.next++
		if r.held > 0 {
			r.advance()
			gap = true
		}
	} else {
		gap = r.held == 0 || !r.bit(n-1)
		r.hold(n)
	}
	r.accepted(now, n, 1, gap, delay, rules)
}

// AcceptRun works like Accept, for count consecutive packets from n on. When AcceptRun is called,
// packet n must be the next in order, and no packet may have arrived out of order.
func (r *Receiver) AcceptRun(now mono.Time, n seq.Num, count uint32, rules *Rules) {
	r.next = n.Add(count)
	r.accepted(now, r.next-1, count, false, rules.AckDelay, rules)
}

// The method hold records that packet n arrived out of order.
func (r *Receiver) hold(n seq.Num) {
	if d := uint32(n - r.next); d >= r.ringBits() {
		r.widen(d)
	}
	i := uint32(n) & (r.ringBits() - 1)
	r.outOfOrder[i/64] |= 1 << (i % 64)
	r.held++
}

// The method widen enlarges the ring outOfOrder, so that the ring covers a packet at the given
// distance from the next packet in order.
func (r *Receiver) widen(distance uint32) {
	ringBits := max(64, min(r.window, WindowDefault))
	for ringBits <= distance {
		ringBits *= 2
	}
	old, oldBits := r.outOfOrder, r.ringBits()
	r.outOfOrder = make([]uint64, ringBits/64)
	for n := r.next; n != r.next.Add(oldBits); n++ {
		if i := uint32(n) & (oldBits - 1); old[i/64]&(1<<(i%64)) != 0 {
			i = uint32(n) & (ringBits - 1)
			r.outOfOrder[i/64] |= 1 << (i % 64)
		}
	}
}

// advance moves the start of the receive window past the packets that arrived out of order.
func (r *Receiver) advance() {
	for r.held > 0 && r.bit(r.next) {
		i := uint32(r.next) & (r.ringBits() - 1)
		r.outOfOrder[i/64] &^= 1 << (i % 64)
		r.held--
		r.next++
	}
}

const (
	// answersMax is the largest number of immediate ACKs for duplicate packets in each interval
	// answersEvery.
	answersMax   = 32
	answersEvery = 10 * time.Millisecond
)

// Latest describes the packet accepted last. Latest returns the packet's number, its age, the time
// for which the packet may have waited unread, and the count of duplicates modulo 2^32. If no
// packet has been accepted yet, Latest returns the peer's first number minus one.
func (r *Receiver) Latest(now mono.Time) (last seq.Num, ago, unread time.Duration, copies uint32) {
	return r.last, now.Sub(r.lastAt), r.unread, r.copies
}

// Unread sets the time for which the packet that was accepted most recently may have waited in the
// receive queue. The waiting time of a packet is measured from the latest moment at which the
// caller found its receive queue empty.
func (r *Receiver) Unread(d time.Duration) { r.unread = d }

// OutOfOrder writes a bitmap of the packets that have arrived after the first gap in the sequence
// numbers. Bit i of words[w] stands for number Next()+1+64w+i. OutOfOrder returns the number of
// words that it has written, and the last of these words is not zero. If words is too short for all
// packets, the packets with the highest numbers are left out.
func (r *Receiver) OutOfOrder(words []uint64) int {
	left := r.held
	for w := range words {
		if left == 0 {
			return w
		}
		words[w] = r.outOfOrderWord(r.next + 1 + seq.Num(64*w))
		left -= uint32(bits.OnesCount64(words[w]))
	}
	n := len(words)
	for n > 0 && words[n-1] == 0 {
		n--
	}
	return n
}

// outOfOrderWord returns 64 bits of the ring outOfOrder, starting with the bit of number n.
func (r *Receiver) outOfOrderWord(n seq.Num) (word uint64) {
	at, words := uint32(n)&(r.ringBits()-1), uint32(len(r.outOfOrder))
	word = r.outOfOrder[at/64] >> (at % 64)
	if at%64 != 0 {
		word |= r.outOfOrder[(at/64+1)&(words-1)] << (64 - at%64)
	}
	return word
}

// Size is the window in packets.
func (r *Receiver) Size() uint32 { return r.window }

// Next returns the sequence number of the packet that is next to arrive in order.
func (r *Receiver) Next() seq.Num { return r.next }

// Held returns the number of packets that have arrived after the first gap in the sequence
// numbers.
func (r *Receiver) Held() int { return int(r.held) }

// TakeAck returns the ACK that the caller sends now. After TakeAck, no ACK is due. The result dup
// of TakeAck is true if no packets other than duplicates have arrived after the previous ACK.
func (r *Receiver) TakeAck(c *Credits) (ack seq.Num, credit uint16, dup bool) {
	dup = !r.ackNews
	r.ackNews, r.unacked, r.ackAt = false, 0, mono.Never
	r.ackLater, r.patient = false, false
	return r.next - 1, r.Grant(c), dup
}

const earnedFirst = 32

// Grant renews the peer's credits, and returns how many packets the peer may send after the packets
// that were received in order. The peer's earned credits double whenever the peer has used a
// quarter of them. The peer's earned credits are halved when the peer uses less than a quarter of
// them in creditPeriod.
func (r *Receiver) Grant(c *Credits) uint16 {
	if r.departed {
		return uint16(min(max(r.told.Sub(r.next), 0), 1<<16-1))
	}
	c.weigh(&r.load)
	held, lapsed := r.holds(), r.lapsed
	r.earn(c.now, r.charged-min(held, r.charged))
	grant := c.renew(r, held, min(r.earned, r.window))
	limit := r.next.Add(r.ahead() + grant)
	if lapsed || r.limit.Before(limit) {
		c.raised(r)
	}
	r.limit = limit
	r.told = r.told.Max(limit)
	r.load.granted = c.boundBytes(r, grant)
	return uint16(min(r.ahead()+grant, 1<<16-1))
}

// The method named holds returns the number of packets that the peer may send with its credits. If
// credits of the peer have expired, the result is the smaller number of credits that the pool
// counts after the expiry.
func (r *Receiver) holds() uint32 {
	held := uint32(max(r.limit.Sub(r.next)-int32(r.ahead()), 0))
	if r.lapsed {
		held = min(held, r.charged)
	}
	return held
}

// The method earn counts credits that the peer has used, and adjusts the number of credits that the
// peer has earned.
func (r *Receiver) earn(now mono.Time, used uint32) {
	r.usedLately += used
	if now.Sub(r.usedAt) >= creditPeriod {
		if idle := r.lapsed || now.Sub(r.raisedAt) >= creditLapse; !idle && r.usedLately < r.earned/4 {
			r.earned = max(r.earned/2, earnedFirst)
		}
		r.usedAt, r.usedLately, r.used = now, 0, 0
	}
	if r.used += used; r.used >= r.earned/4 {
		r.earned, r.used = min(2*r.earned, max(r.window, 2*earnedFirst)), 0
	}
}

// The method ahead returns the number of packets that have arrived after the first gap in the
// sequence numbers, which take no credit. If packets after a gap in the sequence numbers took
// credits, a missing packet would stop the peer before its retransmission can arrive. For a peer
// without selective ACKs, ahead returns 0, because that peer recognises a gap by an unchanged
// credit limit.
func (r *Receiver) ahead() uint32 {
	if r.Selective {
		return r.held + r.refused.count
	}
	return 0
}

// Leave gives the credits of a peer that is gone back to the pool. After Leave, the peer is granted
// no more credits.
func (r *Receiver) Leave(c *Credits) {
	c.unlist(r)
	c.unbook(r)
	r.departed, r.lapsed = true, false
}

// Charged is the number of the peer's credits.
func (r *Receiver) Charged() int { return int(r.charged) }

// Booked is the number of buffer slots of the pool that the peer's credits take.
func (r *Receiver) Booked() int { return int(r.booked) }

// CheckState returns an error for the first invariant of the Receiver that does not hold.
func (r *Receiver) CheckState() error {
	n := uint32(0)
	for _, w := range r.outOfOrder {
		n += uint32(bits.OnesCount64(w))
	}
	if n != r.held || r.held >= max(r.window, 1) {
		return fmt.Errorf("reliability: %d packets held, %d bits set", r.held, n)
	}
	if r.held > 0 && r.bit(r.next) {
		return fmt.Errorf("reliability: packet %d is both held and missing", r.next)
	}
	if err := r.refused.check(r.window); err != nil {
		return err
	}
	if held := r.holds(); r.departed && r.charged+r.booked != 0 || !r.departed && held > r.charged {
		return fmt.Errorf("reliability: the peer may send %d packets, %d booked", held, r.charged)
	}
	return nil
}
