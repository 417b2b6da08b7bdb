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
	Duplicate                // in the window, and here before
	Below                    // received in order earlier
	Above                    // beyond the window
)

// Receiver is the receive side of one peer. The zero value must be given to Init.
type Receiver struct {
	// outOfOrder is a ring: bit n modulo its length says that packet n arrived before its turn.
	// The ring is allocated at the first gap, and grows with wider gaps.
	outOfOrder []uint64

	next     seq.Num // next to arrive in order
	limit    seq.Num // first number beyond the credits granted
	told     seq.Num // the highest limit that the peer was told, which may have lapsed
	window   uint32
	held     uint32 // bits set in outOfOrder
	charged  uint32 // credits that the peer has
	booked   uint32 // places in Credits for them
	earned   uint32 // credits that the peer has earned by use
	used     uint32 // credits used since earned last grew
	unacked  uint32 // packets accepted since the last ACK
	ackAt    mono.Time
	lastAt   mono.Time     // when the latest packet was accepted
	unread   time.Duration // how long it may have waited before
	last     seq.Num       // its number
	copies   uint32        // packets that had come before, modulo 2^32
	answers  uint32        // of these since answersAt for which an ACK was due at once
	ackNews  bool          // the pending ACK reports a packet that is no duplicate
	ackLater bool          // the pending ACK is held back, for its packet is a lone answer
	patient  bool          // the pending ACK is of a lone answer alone, for which the peer waits
	departed bool          // takes no part in the sharing of credits any more
	lapsed   bool          // limit is not what is booked: see Credits
	short    bool          // was granted less than it needs, and than its share
	wants    bool          // less than it has earned
	asked    bool          // the peer waits for the ACK of everything up to askedFor
	listed   bool          // in the pool's list, between earlier and later
	// Selective: the peer supports selective acknowledgements, so a gap is reported at once.
	Selective bool
	askedFor  seq.Num
	// usedLately is the credits used since usedAt: the earned credits of a peer that uses few are
	// reduced.
	usedLately uint32
	usedAt     mono.Time
	path       time.Duration // round trip to the peer, 0 if it is not known
	raisedAt   mono.Time     // when the limit was raised, for which it is listed
	answersAt  mono.Time
	earlier    *Receiver
	later      *Receiver
	load       load
	refused    refusedPackets
	turns      turns
}

// Init sets the peer's first sequence number and the window in packets (a power of two).
func (r *Receiver) Init(first seq.Num, window int) {
	*r = Receiver{
		next: first, limit: first, told: first, last: first - 1, window: uint32(window),
		earned: earnedFirst, ackAt: mono.Never, load: load{granted: NoBytesBound},
	}
}

// Check classifies a packet's number. It changes no state: the caller accepts the packet only if
// all higher layers could take it.
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

// bit says whether packet n of the window arrived before its turn. There must be such packets.
func (r *Receiver) bit(n seq.Num) bool {
	if uint32(n-r.next) >= r.ringBits() {
		return false
	}
	i := uint32(n) & (r.ringBits() - 1)
	return r.outOfOrder[i/64]&(1<<(i%64)) != 0
}

// ringBits is the number of packets, from next on, that outOfOrder covers.
func (r *Receiver) ringBits() uint32 { return 64 * uint32(len(r.outOfOrder)) }

// Accept records a packet that Check found acceptable and the caller has accepted: from now on ACKs
// may cover it. An ACK is due after the rules' delay; at once when AckEvery packets (or half as
// many: see Pace; or a quarter of the credits, but at least two packets) wait for one, or when the
// peer has used up its credits. For a peer with selective ACKs one is also due at once when a gap
// opens or closes: the peer has packets to retransmit, or learns about the path.
func (r *Receiver) Accept(now mono.Time, n seq.Num, rules *Rules) {
	r.accept(now, n, rules.AckDelay, rules)
}

// accept is Accept for a packet whose ACK is due after a delay.
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

// AcceptRun is Accept for count consecutive packets from n on, where n is the next in order and no
// packet is held beyond a gap.
func (r *Receiver) AcceptRun(now mono.Time, n seq.Num, count uint32, rules *Rules) {
	r.next = n.Add(count)
	r.accepted(now, r.next-1, count, false, rules.AckDelay, rules)
}

// hold records a packet that arrived out of order.
func (r *Receiver) hold(n seq.Num) {
	if d := uint32(n - r.next); d >= r.ringBits() {
		r.widen(d)
	}
	i := uint32(n) & (r.ringBits() - 1)
	r.outOfOrder[i/64] |= 1 << (i % 64)
	r.held++
}

// widen makes the ring large enough for the packet at a distance from the next one: the size of a
// usual window, or more if needed.
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

// advance moves the window past the packets that had arrived early.
func (r *Receiver) advance() {
	for r.held > 0 && r.bit(r.next) {
		i := uint32(r.next) & (r.ringBits() - 1)
		r.outOfOrder[i/64] &^= 1 << (i % 64)
		r.held--
		r.next++
	}
}

const (
	// answersMax bounds the immediate ACKs to duplicates within answersEvery: an attacker can
	// replay a packet, and an ACK may be longer than it (amplification).
	answersMax   = 32
	answersEvery = 10 * time.Millisecond
)

// Latest returns the number of the packet accepted last (if none, one below the peer's first), its
// age, the time for which it may have waited unread, and the count of duplicates modulo 2^32.
func (r *Receiver) Latest(now mono.Time) (last seq.Num, ago, unread time.Duration, copies uint32) {
	return r.last, now.Sub(r.lastAt), r.unread, r.copies
}

// Unread sets the time for which the packet accepted last may have waited unread: since the caller
// last found its receive queue empty.
func (r *Receiver) Unread(d time.Duration) { r.unread = d }

// OutOfOrder writes a bitmap of the packets held beyond the first gap: bit i of words[w] is number
// Next()+1+64w+i. It returns the number of words written, the last of which is not zero. Packets
// beyond len(words) are left out.
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

// outOfOrderWord returns the 64 bits of the ring from that of number n on.
func (r *Receiver) outOfOrderWord(n seq.Num) (word uint64) {
	// The bit behind the last of the ring is that of r.next, which is not set.
	at, words := uint32(n)&(r.ringBits()-1), uint32(len(r.outOfOrder))
	word = r.outOfOrder[at/64] >> (at % 64)
	if at%64 != 0 {
		word |= r.outOfOrder[(at/64+1)&(words-1)] << (64 - at%64)
	}
	return word
}

// Size is the window in packets.
func (r *Receiver) Size() uint32 { return r.window }

// Next is the number that is next to arrive in order.
func (r *Receiver) Next() seq.Num { return r.next }

// Held is the number of packets received beyond a gap.
func (r *Receiver) Held() int { return int(r.held) }

// TakeAck returns the ACK to send now, which is then no longer due. dup says that it answers only
// duplicates.
func (r *Receiver) TakeAck(c *Credits) (ack seq.Num, credit uint16, dup bool) {
	dup = !r.ackNews
	r.ackNews, r.unacked, r.ackAt = false, 0, mono.Never
	r.ackLater, r.patient = false, false
	return r.next - 1, r.Grant(c), dup
}

// earnedFirst is the initial credits of a peer: enough for a burst of small messages, and few
// enough for many idle peers.
const earnedFirst = 32

// Grant renews the peer's credits and returns how many it has beyond the packets received in order.
// They double whenever the peer has used a quarter of its grant, so that many low-volume peers hold
// few, and are halved when it uses less than that for a while.
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

// holds is the number of packets that the peer may still send: if credits have lapsed, only those
// that the pool still counts.
func (r *Receiver) holds() uint32 {
	held := uint32(max(r.limit.Sub(r.next)-int32(r.ahead()), 0))
	if r.lapsed {
		held = min(held, r.charged)
	}
	return held
}

// earn counts credits that the peer has used, and adjusts its earned ones.
func (r *Receiver) earn(now mono.Time, used uint32) {
	r.usedLately += used
	if now.Sub(r.usedAt) >= creditPeriod {
		// A peer that was idle meanwhile keeps its earned credits.
		if idle := r.lapsed || now.Sub(r.raisedAt) >= creditLapse; !idle && r.usedLately < r.earned/4 {
			r.earned = max(r.earned/2, earnedFirst)
		}
		r.usedAt, r.usedLately, r.used = now, 0, 0
	}
	if r.used += used; r.used >= r.earned/4 {
		r.earned, r.used = min(2*r.earned, max(r.window, 2*earnedFirst)), 0
	}
}

// ahead is the number of packets beyond a gap that take no credit: they were accepted, or refused
// for now, and the peer knows it, so that a missing packet does not stop the peer before its
// retransmission can arrive. A peer without selective ACKs must recognise a gap by an unchanged
// limit.
func (r *Receiver) ahead() uint32 {
	if r.Selective {
		return r.held + r.refused.count
	}
	return 0
}

// Leave returns the credits when the peer is gone. The peer is granted no more.
func (r *Receiver) Leave(c *Credits) {
	c.unlist(r)
	c.unbook(r)
	r.departed, r.lapsed = true, false
}

// Charged is the number of the peer's credits, and Booked the number of places of the pool that
// they take.
func (r *Receiver) Charged() int { return int(r.charged) }

// Booked is explained at Charged.
func (r *Receiver) Booked() int { return int(r.booked) }

// CheckState reports the first broken invariant.
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
