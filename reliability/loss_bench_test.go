package reliability

import (
	"fmt"
	"testing"
	"time"

	"gobtl/internal/seq"
)

// lossyPath is a sender of the profile adaptive whose losses fill the window, and a receiver. The
// path between them loses one packet of a hundred.
type lossyPath struct {
	*driven
	rcv   Receiver
	free  []Token
	way   []seq.Num // packets in transit; the oldest is at sent modulo the length
	sent  int
	words []uint64
}

const (
	lossyEvery    = 100
	lossyAckEvery = 32
)

func newLossyPath(t failer, window int) *lossyPath {
	rules := Adaptive()
	rules.WindowPackets, rules.Congestion = window, CongestionFixed
	segs, err := NewRecovery(2*window, 1, rules)
	if err != nil {
		t.Fatalf("%v", err)
	}
	p := &lossyPath{
		driven: &driven{t: t, segs: segs, now: 1e9, done: make([]Token, 0, window)},
		way:    make([]seq.Num, window/2), words: make([]uint64, window/64),
	}
	p.snd.Init(3, adaptiveFirst, window)
	segs.Join(&p.snd, 0, true)
	p.snd.Grant(1<<16 - 1)
	p.rcv.Init(adaptiveFirst, window)
	for i := range 2 * window {
		p.free = append(p.free, Token(i))
	}
	return p
}

// step simulates a microsecond, in which one packet arrives and one packet is sent, if possible a
// retransmission.
func (p *lossyPath) step() {
	p.now = p.now.Add(time.Microsecond)
	place := &p.way[p.sent%len(p.way)]
	if p.sent >= len(p.way) && p.sent%lossyEvery != 0 {
		if p.rcv.Check(*place) == Accept {
			p.rcv.Accept(p.now, *place, &p.segs.rules)
		}
	}
	if p.sent%lossyAckEvery == 0 {
		p.acknowledge()
	}
	if t, _, ok := p.segs.PopResend(); ok {
		_, *place = p.segs.Owner(t)
		p.snd.Repost(p.now, t, time.Hour)
	} else if p.snd.Open() {
		t := p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
		*place = p.snd.Admit(t)
		p.snd.Post(p.now, t, *place, Data, time.Hour)
	}
	p.sent++
}

func (p *lossyPath) acknowledge() {
	last, _, _, copies := p.rcv.Latest(p.now)
	ack := p.rcv.Next() - 1
	sack := Sack{Last: last, Copies: copies, Words: p.words[:p.rcv.OutOfOrder(p.words)]}
	p.done, _ = p.snd.OnSack(p.now, ack, 1<<16-1, &sack, p.done[:0])
	p.free = append(p.free, p.done...)
}

// TestLossyPath checks that the stream of the benchmark makes progress and repairs each loss once.
func TestLossyPath(t *testing.T) {
	t.Parallel()
	p := newLossyPath(t, 1024)
	for range 1 << 15 {
		p.step()
		if p.sent%61 == 0 {
			p.check()
		}
	}
	got := uint32(p.rcv.Next() - adaptiveFirst)
	if got < 1<<15*4/5 || p.segs.Counts().Spurious > 0 {
		t.Errorf("%d packets of %d in order, %+v", got, 1<<15, p.segs.Counts())
	}
}

// BenchmarkLoss measures a packet of a stream that loses one packet of a hundred, with an ACK for
// each 32 packets. Processing an ACK examines 64 packets of the window at a time, and each missing
// packet. A window that is 16 times as large may cost several times more, but not 16 times more.
func BenchmarkLoss(b *testing.B) {
	for _, window := range []int{256, 4096, 65536} {
		b.Run(fmt.Sprintf("window=%d", window), func(b *testing.B) {
			p := newLossyPath(b, window)
			for range 4 * window {
				p.step()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				p.step()
			}
		})
	}
}
