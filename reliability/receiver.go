package reliability

import (
	"fmt"
	"math/bits"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Verdict says how the number of a received packet relates to the receive window.
type Verdict uint8

// Verdicts of Receiver.Check.
const (
	Accept    Verdict = iota // in the window and new
	Duplicate                // in the window, and received before
	Below                    // received in order earlier
	Above                    // beyond the window
)

// Receiver is the receive side of one peer. A zero Receiver must not be used before a call of Init.
type Receiver struct {
	rare     *rare   // nil before the first packet out of turn
	next     seq.Num // next to arrive in order
	limit    seq.Num // first number beyond the granted credits
	told     seq.Num // the highest credit limit sent to the peer; possibly expired
	window   uint32
	held     uint32 // bits set in rare.outOfOrder
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
	askedFor seq.Num       // see asked
	refused  uint32        // bits set in rare.refused
	turns    turns
	ackNews  bool // the pending ACK reports a new packet
	ackLater bool // the pending ACK is the delayed ACK of a lone reply (lone.go)
	patient  bool // the pending ACK acknowledges only a lone reply, which has a longer time-out
	departed bool // the peer is gone and shares no credits
	lapsed   bool // the credits have expired: see Credits
	short    bool // granted less than the peer needs, and less than its share
	wants    bool // granted less than the peer has earned
	asked    bool // the peer has requested an ACK of all packets up to askedFor
	listed   bool // in the pool's list, between earlier and later
	// Selective says whether the peer supports selective acknowledgements. If the peer supports
	// selective acknowledgements, the receiver reports each gap in the sequence numbers immediately.
	Selective bool
	small     bool // the mean packet is small: more packets and a byte limit are granted
	bounded   bool // the peer has a byte limit, or unused credits from a grant with a byte limit
	// usedLately is the number of credits that the peer has used since the time usedAt.
	usedLately uint32
	usedAt     mono.Time
	path       time.Duration // round trip to the peer; 0: not known
	raisedAt   mono.Time     // when the limit was last raised
	host       *host         // nil: not known, or the peer shares no credits
	earlier    *Receiver
	later      *Receiver
	load       load
}

// The type "rare" holds the state of a Receiver that is needed only if packets of the peer have
// arrived out of order or repeatedly, or were refused.
type rare struct {
	// The ring outOfOrder is a bitmap of those packets in the receive window that have arrived out of
	// order. The ring outOfOrder is allocated when the first packet arrives out of order, and is
	// enlarged when a packet does not fit into it.
	outOfOrder []uint64
	refused    refusedPackets
	answersAt  mono.Time
	answers    uint32 // duplicates since answersAt for which an ACK was due at once
}

// needRare returns the Receiver's state for packets that arrive out of order or repeatedly, or are
// refused. The first call of needRare allocates the state that needRare returns.
func (r *Receiver) needRare() *rare {
	if r.rare == nil {
		r.rare = new(rare)
	}
	return r.rare
}

// Init makes the Receiver ready for a peer. The arguments of Init are the peer's first sequence
// number and the size of the receive window in packets, a power of two.
func (r *Receiver) Init(first seq.Num, window int) {
	*r = Receiver{
		next: first, limit: first, told: first, last: first - 1, window: uint32(window),
		earned: earnedFirst, ackAt: mono.Never, load: load{granted: NoBytesBound},
	}
}

// Check compares the number n of a received packet with the receive window, without changing the
// Receiver. Before the caller calls Accept for packet n, the caller must make sure that all higher
// layers can process the packet.
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

// The method "bit" reports whether packet n of the receive window has already arrived out of order.
// The ring outOfOrder must be allocated when the method "bit" is called.
func (r *Receiver) bit(n seq.Num) bool {
	if uint32(n-r.next) >= r.ringBits() {
		return false
	}
	i := uint32(n) & (r.ringBits() - 1)
	return r.rare.outOfOrder[i/64]&(1<<(i%64)) != 0
}

// ringBits returns how many packets, beginning with the next packet in order, have a bit in the
// ring outOfOrder. The caller must have called needRare before it calls ringBits.
func (r *Receiver) ringBits() uint32 { return 64 * uint32(len(r.rare.outOfOrder)) }

// Accept records that the caller has accepted packet n, for which Check has returned the verdict
// Accept. After Accept, ACKs cover packet n. An ACK becomes due at the latest after the delay
// AckDelay. An ACK is due immediately when AckEvery packets (or half of AckEvery, see Pace) or
// packets for a quarter of the peer's credits are unacknowledged. When the peer has used all its
// credits, an ACK is due immediately. If the peer supports selective ACKs, an ACK is due
// immediately when a gap in the received sequence numbers opens or closes.
func (r *Receiver) Accept(now mono.Time, n seq.Num, rules *Rules) {
	r.accept(now, n, rules.AckDelay, rules)
}

// The method "accept" works like Accept, with the given ACK delay instead of Rules.AckDelay.
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
	r.accepted(now, n, gap, delay, rules)
}

// The method "hold" records that packet n has arrived out of order.
func (r *Receiver) hold(n seq.Num) {
	rare := r.needRare()
	if d := uint32(n - r.next); d >= r.ringBits() {
		r.widen(d)
	}
	i := uint32(n) & (r.ringBits() - 1)
	rare.outOfOrder[i/64] |= 1 << (i % 64)
	r.held++
}

// The method "widen" enlarges the ring outOfOrder so that it has a bit for packet r.next +
// distance, where r.next is the next number in order.
func (r *Receiver) widen(distance uint32) {
	ringBits := max(64, min(r.window, WindowDefault))
	for ringBits <= distance {
		ringBits *= 2
	}
	old, oldBits := r.rare.outOfOrder, r.ringBits()
	ring := make([]uint64, ringBits/64)
	for n := r.next; n != r.next.Add(oldBits); n++ {
		if i := uint32(n) & (oldBits - 1); old[i/64]&(1<<(i%64)) != 0 {
			i = uint32(n) & (ringBits - 1)
			ring[i/64] |= 1 << (i % 64)
		}
	}
	r.rare.outOfOrder = ring
}

// advance moves the start of the receive window to the next packet that has not arrived.
func (r *Receiver) advance() {
	for r.held > 0 && r.bit(r.next) {
		i := uint32(r.next) & (r.ringBits() - 1)
		r.rare.outOfOrder[i/64] &^= 1 << (i % 64)
		r.held--
		r.next++
	}
}

const (
	// answersMax is the largest number of immediate ACKs for duplicate packets in each interval of the
	// length answersEvery.
	answersMax   = 32
	answersEvery = 10 * time.Millisecond
)

// Latest describes the packet accepted last. For the packet accepted last, Latest returns its
// number, the time since its receipt, and an upper bound for the time that it waited in the receive
// queue. The result "copies" of Latest is the number of duplicates received so far, modulo 2^32.
// Before the first packet is accepted, the result "last" of Latest is the peer's first sequence
// number minus one.
func (r *Receiver) Latest(now mono.Time) (last seq.Num, ago, unread time.Duration, copies uint32) {
	return r.last, now.Sub(r.lastAt), r.unread, r.copies
}

// Unread records an upper bound for the time that the packet accepted last has waited in the
// receive queue. As an upper bound, the caller takes the time since it last found its receive queue
// empty.
func (r *Receiver) Unread(d time.Duration) { r.unread = d }

// OutOfOrder writes a bitmap to the slice "words", which says which packets have arrived after the
// first gap in the sequence numbers. Bit i of words[w] stands for the packet with the number
// Next()+1+64w+i. OutOfOrder returns the number of words up to the last one that is not zero. If
// the slice "words" is too short, OutOfOrder omits the packets with the highest numbers.
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

// outOfOrderWord returns 64 bits of the ring outOfOrder, starting with the bit of packet n.
func (r *Receiver) outOfOrderWord(n seq.Num) (word uint64) {
	ring := r.rare.outOfOrder
	at, words := uint32(n)&(r.ringBits()-1), uint32(len(ring))
	word = ring[at/64] >> (at % 64)
	if at%64 != 0 {
		word |= ring[(at/64+1)&(words-1)] << (64 - at%64)
	}
	return word
}

// Size returns the size of the receive window in packets.
func (r *Receiver) Size() uint32 { return r.window }

// Next returns the sequence number of the next packet in order, which is the lowest number of a
// packet that has not arrived.
func (r *Receiver) Next() seq.Num { return r.next }

// Held returns the number of packets that have arrived out of order, while a packet with a lower
// number is missing.
func (r *Receiver) Held() int { return int(r.held) }

// TakeAck returns the content of the ACK that the caller is about to send. After TakeAck, no ACK is
// due. The result "dup" of TakeAck says whether only duplicates have arrived since the previous
// ACK.
func (r *Receiver) TakeAck(c *Credits) (ack seq.Num, credit uint16, dup bool) {
	dup = !r.ackNews
	r.ackNews, r.unacked, r.ackAt = false, 0, mono.Never
	r.ackLater, r.patient = false, false
	return r.next - 1, r.Grant(c), dup
}

const earnedFirst = 32

// Grant recomputes the peer's credits, and returns how many packets the peer may send after the
// last packet that was received in order. Whenever the peer has used a quarter of its earned
// credits, Grant doubles the earned credits. If the peer uses less than a quarter of its earned
// credits in an interval of the length creditPeriod, Grant halves the peer's earned credits, unless
// the peer's credits have expired.
func (r *Receiver) Grant(c *Credits) uint16 {
	if r.departed {
		return uint16(min(max(r.told.Sub(r.next), 0), 1<<16-1))
	}
	c.weigh(r)
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

// The method "holds" returns how many credits the peer has not used yet. If the peer's credits have
// expired, the result of the method "holds" is limited to the few credits that the peer keeps after
// the expiry.
func (r *Receiver) holds() uint32 {
	held := uint32(max(r.limit.Sub(r.next)-int32(r.ahead()), 0))
	if r.lapsed {
		held = min(held, r.charged)
	}
	return held
}

// The method "earn" counts the credits that the peer has used, and adjusts the peer's earned
// credits, which are a limit for the number of credits that the peer can have at the same time.
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

// The method "ahead" returns the number of packets, accepted or refused, that have arrived after
// the first gap in the sequence numbers. Packets after a gap take no credits, because the peer
// could otherwise run out of credits before the missing packets have arrived. For a peer without
// selective ACKs, the method "ahead" returns 0, because this peer recognises a missing packet by an
// unchanged credit limit.
func (r *Receiver) ahead() uint32 {
	if r.Selective {
		return r.held + r.refused
	}
	return 0
}

// Leave returns the peer's credits to the pool when the connection to the peer has ended. After
// Leave, the peer gets no more credits.
func (r *Receiver) Leave(c *Credits) {
	c.unlist(r)
	c.unbook(r)
	c.depart(r)
	r.departed, r.lapsed = true, false
}

// Charged returns the number of the peer's credits.
func (r *Receiver) Charged() int { return int(r.charged) }

// Booked returns how many slots of the receive buffer the peer's credits take.
func (r *Receiver) Booked() int { return int(r.booked) }

// CheckState returns an error for the first invariant of the Receiver that does not hold, or nil if
// all of them hold.
func (r *Receiver) CheckState() error {
	n, refused := uint32(0), uint32(0)
	if r.rare != nil {
		n, refused = bitsSet(r.rare.outOfOrder), bitsSet(r.rare.refused)
	}
	if n != r.held || r.held >= max(r.window, 1) {
		return fmt.Errorf("reliability: %d packets held, %d bits set", r.held, n)
	}
	if r.held > 0 && r.bit(r.next) {
		return fmt.Errorf("reliability: packet %d is both held and missing", r.next)
	}
	if refused != r.refused || refused > r.window {
		return fmt.Errorf("reliability: %d packets refused, %d bits set", r.refused, refused)
	}
	if held := r.holds(); r.departed && r.charged+r.booked != 0 || !r.departed && held > r.charged {
		return fmt.Errorf("reliability: the peer may send %d packets, %d booked", held, r.charged)
	}
	return nil
}

// bitsSet returns the number of set bits in a bitmap.
func bitsSet(words []uint64) (n uint32) {
	for _, w := range words {
		n += uint32(bits.OnesCount64(w))
	}
	return n
}
