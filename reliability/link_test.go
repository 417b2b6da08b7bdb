package reliability

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// faults are the faults of one direction of a link, as probabilities and one-way times.
type faults struct {
	loss, dup, late       float64
	delay, jitter, lateBy time.Duration
}

// linkConfig is a link between a Sender and a Receiver, and the traffic on the link.
type linkConfig struct {
	name         string
	rules        Rules
	first        seq.Num
	total        int // packets to deliver
	segments     int
	capacity     int     // capacity of the receiving module in packets
	data, acks   faults  // by direction
	refuse, nack float64 // shares of packets in the window: dropped above; refused with notice
	full         float64 // share of retransmissions without room in the send queue
	crowd        bool    // other peers come, use credits and leave
	// After outageAfter packets no packet arrives for outageFor.
	outageAfter int
	outageFor   time.Duration
}

type kind uint8

const (
	kindData kind = iota
	kindAck
	kindNack
)

// datagram is a datagram in transit. The field stamp keeps the order of datagrams that arrive at
// the same instant.
type datagram struct {
	at     mono.Time
	stamp  int
	kind   kind
	number seq.Num
	credit uint16
	dup    bool
}

type datagrams []datagram

func (d datagrams) Len() int      { return len(d) }
func (d datagrams) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *datagrams) Push(x any)   { *d = append(*d, x.(datagram)) }
func (d datagrams) Less(i, j int) bool {
	return d[i].at < d[j].at || d[i].at == d[j].at && d[i].stamp < d[j].stamp
}

func (d *datagrams) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// link is a sending and a receiving module with a network between them, in virtual time.
type link struct {
	linkConfig
	t   *testing.T
	rng *rand.Rand
	now mono.Time

	wire  datagrams
	stamp int

	snd    Sender
	segs   *Recovery
	free   []Token
	buffer []int // the packet in each segment's buffer; -1: none

	rcv    Receiver
	pool   *Credits
	others []*Receiver
	gone   []*Receiver

	delivered []uint8
	sent      int // packets admitted
	acked     int

	outageEnds mono.Time     // 0: the outage has not ended yet
	mark       int           // packets in flight when the outage ended, and earlier ones
	longest    time.Duration // the longest time-out that was running then
	// from the end of the outage until the packets of mark were acknowledged
	recovered time.Duration

	copies, outageCopies, duplicates, explicit, passes int
}

// pass is the duration of one call of the progress loop.
const pass = time.Microsecond

func newLink(t *testing.T, c linkConfig, rng *rand.Rand) *link {
	t.Helper()
	l := &link{
		linkConfig: c, t: t, rng: rng, segs: mustSegments(t, c.segments, c.rules),
		pool: NewCredits(c.capacity), delivered: make([]uint8, c.total),
	}
	for i := range c.segments {
		l.free = append(l.free, Token(i))
		l.buffer = append(l.buffer, -1)
	}
	l.snd.Init(1, c.first, c.rules.WindowPackets)
	join(l.segs, &l.snd)
	l.rcv.Init(c.first, c.rules.WindowPackets)
	l.pool.Join()
	l.snd.Grant(l.rcv.Grant(l.pool))
	return l
}

func (l *link) chance(p float64) bool { return p > 0 && l.rng.Float64() < p }

func (l *link) inOutage() bool { return l.now < l.outageEnds }

// send sends a datagram once, not at all, or twice.
func (l *link) send(d datagram, f *faults) {
	if l.inOutage() {
		return
	}
	copies := 1
	if l.chance(f.loss) {
		copies = 0
	}
	if l.chance(f.dup) {
		copies++
	}
	for range copies {
		d.at = l.now.Add(f.delay)
		if f.jitter > 0 {
			d.at = d.at.Add(time.Duration(l.rng.Int64N(int64(f.jitter))))
		}
		if l.chance(f.late) {
			d.at = d.at.Add(f.lateBy)
		}
		l.stamp++
		d.stamp = l.stamp
		heap.Push(&l.wire, d)
	}
}

// step is one progress call of each of the two modules.
func (l *link) step() {
	l.passes++
	for len(l.wire) > 0 && l.wire[0].at <= l.now {
		if d := heap.Pop(&l.wire).(datagram); d.kind == kindData {
			l.receive(d.number)
		} else {
			l.notice(d)
		}
	}
	expire(l.segs, l.now)
	l.sendAgain()
	for batch := 0; batch < 32 && l.maySend(); batch++ {
		l.sendNew()
	}
	if l.rcv.AckDue() <= l.now {
		ack, credit, dup := l.rcv.TakeAck(l.pool)
		l.explicit++
		l.send(datagram{kind: kindAck, number: ack, credit: credit, dup: dup}, &l.acks)
	}
	if l.crowd && l.chance(0.01) {
		l.stir()
	}
	l.outage()
	l.check()
}

func (l *link) maySend() bool { return l.sent < l.total && len(l.free) > 0 && l.snd.Open() }

func (l *link) sendNew() {
	token := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	n := l.snd.Admit(token)
	if n != l.first.Add(uint32(l.sent)) {
		l.t.Fatalf("packet %d has number %d", l.sent, n)
	}
	if !n.Before(l.rcv.limit) {
		l.t.Fatalf("packet %d is beyond the credits, up to %d", l.sent, int(l.rcv.limit-l.first))
	}
	l.buffer[token] = l.sent
	l.sent++
	postAs(l.segs, l.now, token, l.snd.Number(), n, forever)
	l.send(datagram{kind: kindData, number: n}, &l.data)
}

func (l *link) sendAgain() {
	for range l.rules.ResendsPerPass {
		token, _, ok := l.segs.PopResend()
		if !ok {
			return
		}
		if l.chance(l.full) {
			l.segs.Defer(token)
			return
		}
		owner, n := l.segs.Owner(token)
		if owner != 1 || l.buffer[token] != int(n-l.first) {
			l.t.Fatalf("packet %d sent again from the buffer of %d", int(n-l.first), l.buffer[token])
		}
		l.copies++
		if l.inOutage() {
			l.outageCopies++
		}
		l.send(datagram{kind: kindData, number: n}, &l.data)
		repostAs(l.segs, l.now, token, forever)
	}
}

// receive handles a packet at the receiving module.
func (l *link) receive(n seq.Num) {
	switch verdict := l.rcv.Check(n); {
	case verdict == Above:
		l.t.Fatalf("packet %d is above the window, next is %d", int(n-l.first), int(l.rcv.Next()-l.first))
	case verdict != Accept:
		l.duplicates++
		if l.delivered[n-l.first] != 1 {
			l.t.Fatalf("packet %d taken for a duplicate (%d)", int(n-l.first), verdict)
		}
		l.rcv.Repeated(l.now)
	case l.chance(l.nack):
		l.send(datagram{kind: kindNack, number: n}, &l.acks)
	case !l.chance(l.refuse):
		if l.delivered[n-l.first]++; l.delivered[n-l.first] != 1 {
			l.t.Fatalf("packet %d delivered again", int(n-l.first))
		}
		l.rcv.Accept(l.now, n, &l.rules)
	}
}

// notice handles an ACK or a refusal at the sending module.
func (l *link) notice(d datagram) {
	if d.kind == kindNack {
		if token, ok := l.snd.Token(d.number); ok {
			resendNow(l.segs, token)
		}
		return
	}
	done, verdict := l.snd.OnAck(l.now, d.number, d.credit, d.dup, nil)
	if verdict == AckBogus || verdict == AckNew != (len(done) > 0) {
		l.t.Fatalf("ACK of packet %d: verdict %d, %d freed", int(d.number-l.first), verdict, len(done))
	}
	for _, token := range done {
		if l.buffer[token] != l.acked || l.delivered[l.acked] != 1 {
			l.t.Fatalf("packet %d acknowledged (next is %d), delivered %d times", l.buffer[token], l.acked,
				l.delivered[l.acked])
		}
		l.acked++
		l.buffer[token] = -1
		l.free = append(l.free, token)
	}
}

// stir makes another peer come and use its credits for a while, or leave. A peer that is gone may
// still send.
func (l *link) stir() {
	if len(l.others) == 0 || len(l.others) < 5 && l.chance(0.5) {
		r := &Receiver{}
		r.Init(0, l.rules.WindowPackets)
		l.pool.Join()
		r.Grant(l.pool)
		for range l.rng.IntN(5) { // no grant: the peer stays idle
			l.exhaust(r)
		}
		l.others = append(l.others, r)
		return
	}
	r := l.others[0]
	r.Leave(l.pool)
	l.pool.Leave()
	l.others, l.gone = l.others[1:], append(l.gone, r)
	l.exhaust(l.gone[l.rng.IntN(len(l.gone))])
}

// exhaust makes another peer send all permitted packets, which are acknowledged.
func (l *link) exhaust(r *Receiver) {
	for r.Next().Before(r.limit) {
		r.Accept(l.now, r.Next(), &l.rules)
	}
	r.TakeAck(l.pool)
}

// outage interrupts the link when the time has come, and records the state when the outage ends.
func (l *link) outage() {
	if l.outageFor == 0 {
		return
	}
	if l.outageEnds == 0 {
		if l.acked >= l.outageAfter {
			l.wire = nil
			l.outageEnds = l.now.Add(l.outageFor)
		}
		return
	}
	if l.inOutage() || l.recovered > 0 {
		return
	}
	if l.mark == 0 {
		l.mark = l.sent
		for i := range l.segs.segs {
			if g := &l.segs.segs[i]; g.state == Posted {
				l.longest = max(l.longest, usnicOf(l.segs).stay(g))
			}
		}
	}
	if l.acked >= l.mark {
		l.recovered = l.now.Sub(l.outageEnds)
	}
}

func (l *link) check() {
	if l.rules.WindowPackets > 64 && l.passes%256 != 0 {
		return // avoids walking thousands of segments thousands of times
	}
	for _, err := range []error{l.segs.Check(), l.snd.Check(), l.rcv.CheckState()} {
		if err != nil {
			l.t.Fatal(err)
		}
	}
	if l.snd.InFlight() != l.sent-l.acked || l.segs.InFlight() != l.sent-l.acked ||
		len(l.free) != l.segments-l.snd.InFlight() {
		l.t.Fatalf("%d in the window, %d timed or listed, %d free; %d sent, %d acknowledged",
			l.snd.InFlight(), l.segs.InFlight(), len(l.free), l.sent, l.acked)
	}
}

// next is when the next event happens, or mono.Never if there is none.
func (l *link) next() mono.Time {
	if l.maySend() || l.segs.ResendsWaiting() > 0 {
		return l.now.Add(pass)
	}
	at := l.segs.Deadline().Min(l.rcv.AckDue())
	if len(l.wire) > 0 {
		at = at.Min(l.wire[0].at)
	}
	if l.inOutage() {
		at = at.Min(l.outageEnds)
	}
	return max(at, l.now.Add(pass))
}

// run delivers all packets until the link is silent, within an hour of virtual time.
func (l *link) run() {
	for at := l.now; at != mono.Never; at = l.next() {
		if l.now = at; l.now > mono.Time(time.Hour) {
			l.t.Fatalf("%d of %d packets acknowledged after an hour", l.acked, l.total)
		}
		l.step()
	}
	if l.acked != l.total {
		l.t.Fatalf("silent after %v with %d of %d packets acknowledged", time.Duration(l.now), l.acked,
			l.total)
	}
	for n, times := range l.delivered {
		if times != 1 {
			l.t.Fatalf("packet %d delivered %d times", n, times)
		}
	}
	if l.snd.InFlight() != 0 || l.rcv.Held() != 0 || len(l.free) != l.segments {
		l.t.Fatalf("not drained: %d in flight, %d held, %d of %d segments free", l.snd.InFlight(),
			l.rcv.Held(), len(l.free), l.segments)
	}
	for _, r := range append(l.others, &l.rcv) {
		r.Leave(l.pool)
		r.TakeAck(l.pool)
	}
	if l.pool.Granted() != 0 {
		l.t.Fatalf("%d credits granted to nobody", l.pool.Granted())
	}
	l.t.Logf("%d packets in %v: %d copies, %d duplicates, %d ACKs", l.total, time.Duration(l.now),
		l.copies, l.duplicates, l.explicit)
}
