package vnic

import (
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/internal/mono"
)

// sizeLab is a search and the path to the other host.
type sizeLab struct {
	p       *PathSearch
	now     mono.Time
	carries int     // largest datagram that passes; -1: the other host is absent
	loss    float64 // of datagrams larger than small ones
	rng     *rand.Rand
	sent    int
	least   int // smallest size in use
}

func newSizeLab(most int) *sizeLab {
	l := &sizeLab{rng: rand.New(rand.NewPCG(1, 2)), now: 1, carries: 1 << 20}
	l.p = NewPathSearch(l.rng.Uint64)
	l.p.SetMost(l.now, most)
	l.least = most
	return l
}

// run runs the search for some time.
func (l *sizeLab) run(d time.Duration) {
	for end := l.now.Add(d); l.p.Due() < end; {
		l.now = max(l.now, l.p.Due())
		l.least = min(l.least, l.p.size)
		for _, ask := range l.p.Probes(l.now, nil) {
			l.sent++
			if ask.Bytes <= l.carries && (ask.Bytes < 100 || l.rng.Float64() >= l.loss) {
				l.p.Answered(l.now, ask.Number)
			}
		}
	}
}

// TestPathSearch: the search finds the next usual size below what the path carries.
func TestPathSearch(t *testing.T) {
	for _, c := range []struct{ most, carries, want int }{
		{1472, 1472, 1472},
		{1472, 1471, 1452},
		{1472, 1400, 1352},
		{1472, 1000, 528},
		{1472, 100, 528},
		{8972, 9000, 8972},
		{8972, 1472, 1452},
		{8972, 8960, 8952},
		{16376, 5000, 4304},
		{400, 100, 400},
		{1472, -1, 1472},
		{8972, -1, 8972},
	} {
		l := newSizeLab(c.most)
		l.carries = c.carries
		l.run(10 * time.Second)
		if n, less := l.p.Bytes(); n != c.want || less != (c.want < c.most) {
			t.Errorf("%d of %d bytes pass: found %d, %v; want %d", c.carries, c.most, n, less, c.want)
		}
	}
}

// TestPathSearchFollows: a path that carries less and then more.
func TestPathSearchFollows(t *testing.T) {
	l := newSizeLab(1472)
	l.run(time.Minute)
	for _, c := range []struct{ carries, want int }{
		{1300, 1232},
		{1400, 1352},
		{1460, 1452},
		{1472, 1472},
		{600, 528},
		{-1, 528},
		{1472, 1472},
		{-1, 1472},
	} {
		l.carries = c.carries
		l.run(30 * time.Second)
		if n, _ := l.p.Bytes(); n != c.want {
			t.Errorf("%d bytes pass: found %d, want %d", c.carries, n, c.want)
		}
	}
}

// TestPathSearchMost: another size of the largest packet forgets nothing that is known.
func TestPathSearchMost(t *testing.T) {
	l := newSizeLab(8972)
	l.carries = 1472
	l.run(time.Minute)
	for _, c := range []struct{ most, want int }{{1400, 1400}, {1472, 1472}, {8972, 8972}} {
		l.p.SetMost(l.now, c.most)
		if n, less := l.p.Bytes(); n != c.want || less {
			t.Errorf("at most %d: %d, %v", c.most, n, less)
		}
	}
	l.run(time.Minute)
	if l.p.SetMost(l.now, 16376); l.p.size != 1452 {
		t.Errorf("%d, want 1452", l.p.size)
	}
}

// TestPathSearchLoss: a path that loses half of the large datagrams carries them.
func TestPathSearchLoss(t *testing.T) {
	l := newSizeLab(1472)
	l.loss = .5
	l.run(24 * time.Hour)
	if l.least != 1472 {
		t.Errorf("found %d", l.least)
	}
}

// TestPathSearchDoubt: what the own system says causes probes, and nothing else.
func TestPathSearchDoubt(t *testing.T) {
	l := newSizeLab(1472)
	l.run(time.Minute)
	for range 1000 {
		l.p.Doubt(l.now)
		l.run(time.Millisecond)
		if n, _ := l.p.Bytes(); n != 1472 {
			t.Fatalf("found %d", n)
		}
	}
}

// TestPathSearchForeign: answers with other numbers, and late ones, prove nothing.
func TestPathSearchForeign(t *testing.T) {
	l := newSizeLab(1472)
	l.carries = -1
	var small []uint64
	for range 50 {
		l.now = l.p.Due()
		for _, ask := range l.p.Probes(l.now, nil) {
			if ask.Bytes == SizeProbeBytes {
				small = append(small, ask.Number)
			}
		}
		for n := range uint64(2000) {
			l.p.Answered(l.now, n)
			l.p.Answered(l.now, n^l.rng.Uint64()<<16)
		}
	}
	if n, _ := l.p.Bytes(); n != 1472 || len(small) == 0 {
		t.Fatalf("found %d, %d small probes", n, len(small))
	}
	l.carries = 1472
	l.run(time.Minute)
	l.p.Doubt(l.now)
	l.p.Probes(l.now, nil)
	l.now = l.p.Due()
	l.p.Probes(l.now, nil)
	for _, n := range small {
		l.p.Answered(l.now, n)
	}
	if n, _ := l.p.Bytes(); n != 1472 {
		t.Errorf("late answers: found %d", n)
	}
}

// TestPathSearchSilent: an absent host gets few probes.
func TestPathSearchSilent(t *testing.T) {
	l := newSizeLab(1472)
	l.carries = -1
	l.run(time.Hour)
	if most := doubtRounds*20 + int(time.Hour/confirmEvery)*20; l.sent > most {
		t.Errorf("%d probes in an hour, want at most %d", l.sent, most)
	}
}

// TestPathSearchReturns: a host was absent for a long time, and its path then carries less. The
// search has the new size seconds after the host's first answer.
func TestPathSearchReturns(t *testing.T) {
	l := newSizeLab(1472)
	l.run(time.Minute)
	l.carries = -1
	l.run(time.Minute)
	l.carries = 1300
	l.run(confirmEvery + (smallAnswersMax+1)*doubtEvery)
	if n, _ := l.p.Bytes(); n != 1232 {
		t.Errorf("found %d, want 1232", n)
	}
}

// TestPathSearchSilence: a host is silent after some rounds without an answer. It then gets only
// small probes, and one answer ends the silence.
func TestPathSearchSilence(t *testing.T) {
	l := newSizeLab(1472)
	l.carries = -1
	l.run((silentRounds-2)*doubtEvery + 1)
	if l.p.Silent() {
		t.Error("a new host is silent")
	}
	if l.run(2 * doubtEvery); !l.p.Silent() {
		t.Error("a new host that answers nothing is not silent")
	}
	l.carries = 1472
	l.run(time.Second)
	if l.p.Silent() {
		t.Error("a host that answers is silent")
	}
	l.carries = -1
	l.run(confirmEvery + (silentRounds-2)*doubtEvery)
	if l.p.Silent() {
		t.Error("a few lost probes make a host silent")
	}
	l.run(3 * doubtEvery)
	if !l.p.Silent() {
		t.Fatal("a host that answers nothing is not silent")
	}
	l.now = l.p.Due()
	asks := l.p.Probes(l.now, nil)
	if len(asks) != 1 || asks[0].Bytes != SizeProbeBytes {
		t.Fatalf("a silent host gets the probes %v", asks)
	}
	l.p.Answered(l.now, asks[0].Number^1<<20)
	if !l.p.Silent() {
		t.Error("a foreign number ends the silence")
	}
	if l.p.Answered(l.now, asks[0].Number); l.p.Silent() {
		t.Error("an answer does not end the silence")
	}
	if len(l.p.Probes(l.p.Due(), nil)) < 2 {
		t.Error("a host that answers again gets no probes of its size")
	}
}

// TestPathSearchUnsent: rounds of which nothing was sent say nothing about the other host.
func TestPathSearchUnsent(t *testing.T) {
	l := newSizeLab(1472)
	l.run(time.Second)
	for range 10 * doubtRounds {
		l.now = l.p.Due()
		if len(l.p.Probes(l.now, nil)) == 0 {
			t.Fatal("no probe is due")
		}
		l.p.Unsent(l.now)
		if l.p.Silent() || l.p.Due() != l.now.Add(unsentPause) || l.p.rounds != 0 {
			t.Fatalf("silent %v, the next round in %v, %d rounds", l.p.Silent(), l.p.Due().Sub(l.now),
				l.p.rounds)
		}
	}
}

// TestPathSearchCheck: a look for a host costs one small probe while the host answers, and delays
// no other probe. Without an answer, the usual rounds follow.
func TestPathSearchCheck(t *testing.T) {
	l := newSizeLab(1472)
	l.run(time.Second)
	usual := l.p.Due()
	for range 3 {
		l.now = l.now.Add(time.Second)
		l.p.Check(l.now)
		asks := l.p.Probes(l.now, nil)
		if len(asks) != 1 || asks[0].Bytes != SizeProbeBytes {
			t.Fatalf("a look sends %v", asks)
		}
		if l.p.Answered(l.now, asks[0].Number); l.p.Due() != usual || l.p.missed != 0 {
			t.Fatalf("the next round is due at %v, want %v; %d missed", l.p.Due(), usual, l.p.missed)
		}
		l.p.Answered(l.now, asks[0].Number) // once more
	}
	l.carries = -1
	l.p.Check(l.now)
	l.run((silentRounds-1)*doubtEvery + 1)
	if !l.p.Silent() {
		t.Errorf("a host that does not answer a look is not silent; %d missed", l.p.missed)
	}
	rounds := l.p.rounds
	if l.p.Check(l.now); l.p.check || l.p.rounds != rounds {
		t.Error("a look has an effect on a silent host")
	}
	l.carries = 1472
	l.run(time.Second)
	l.p.Check(l.now)
	l.p.Doubt(l.now)
	if asks := l.p.Probes(l.now, nil); len(asks) != 1 || asks[0].Bytes != 1472 {
		t.Errorf("after a look and a doubt the probes are %v", asks)
	}
}

// TestPathSearchHeard: a packet of a host that was silent for long makes a probe due soon, as often
// as all other rounds, and does not end the silence.
func TestPathSearchHeard(t *testing.T) {
	l := newSizeLab(1472)
	l.carries = -1
	l.run(time.Minute)
	for range 10 {
		if l.p.Due().Sub(l.now) <= time.Second {
			t.Fatalf("the next round is due in %v", l.p.Due().Sub(l.now))
		}
		last := l.now
		for range 100 {
			l.p.Heard()
		}
		if d := l.p.Due().Sub(last); d != doubtEvery || !l.p.Silent() {
			t.Fatalf("the next round is due %v after the last one, silent %v", d, l.p.Silent())
		}
		l.now = l.p.Due()
		l.p.Probes(l.now, nil)
	}
}

// TestSizeProbeBytes: a size probe is no packet with a frame, and no proof datagram.
func TestSizeProbeBytes(t *testing.T) {
	for n := SizeProbeBytes; n < 2000; n++ {
		b := make([]byte, n)
		PutSizeProbe(b, SizeAsks, 1<<40+uint64(n))
		kind, number, ok := ParseSizeProbe(b)
		if !ok || kind != SizeAsks || number != 1<<40+uint64(n) {
			t.Fatalf("%d bytes: %d, %#x, %v", n, kind, number, ok)
		}
		if _, _, err := Parse(b); err == nil {
			t.Errorf("%d bytes are a packet", n)
		}
		if _, _, ok := ParseProof(b); ok {
			t.Errorf("%d bytes are a proof", n)
		}
	}
	if _, _, ok := ParseSizeProbe(make([]byte, 100)); ok {
		t.Error("zeros are a size probe")
	}
}
