package pmtu

import (
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/testenv"
)

// pathLab drives a search over a path of its own: Pings that are not too large are answered.
type pathLab struct {
	p       Search
	now     mono.Time
	limit   int // of the path
	rtt     time.Duration
	loss    float64
	rng     *rand.Rand
	pongs   []pathPong // on their way
	pings   int
	bytes   int
	largest int
}

type pathPong struct {
	at    mono.Time
	nonce uint64
}

func newPathLab(most, limit int, rtt time.Duration, seed uint64) *pathLab {
	l := &pathLab{now: 1, limit: limit, rtt: rtt, rng: rand.New(rand.NewPCG(seed, 1))}
	l.p.Begin(l.now, most, l.rng.Uint64())
	return l
}

// until runs the search until cond holds, for at most limit of its time; it returns how long that
// was.
func (l *pathLab) until(t *testing.T, limit time.Duration, cond func() bool) time.Duration {
	t.Helper()
	begin := l.now
	for !cond() {
		next := l.p.Due
		for _, p := range l.pongs {
			next = min(next, p.at)
		}
		if next == mono.Never || next.Sub(begin) > limit {
			t.Fatalf("size %d, below %d, stage %d after %v", l.p.Size, l.p.below, l.p.Stage,
				l.now.Sub(begin))
		}
		l.now = max(l.now, next)
		rest := l.pongs[:0]
		for _, p := range l.pongs {
			if p.at > l.now {
				rest = append(rest, p)
			} else if !l.p.ProbeAcked(l.now, p.nonce) && l.p.holes == 0 {
				t.Fatalf("pong %x is not one of the search", p.nonce)
			}
		}
		l.pongs = rest
		if l.p.Due <= l.now {
			l.ask()
		}
	}
	return l.now.Sub(begin)
}

func (l *pathLab) ask() {
	sizes := l.p.Probes(l.now, 2*l.rtt, l.rng.Uint64(), nil)
	for _, s := range sizes {
		l.pings++
		l.bytes += s
		l.largest = max(l.largest, s)
		if s <= l.limit && l.rng.Float64() >= l.loss {
			l.pongs = append(l.pongs, pathPong{l.now.Add(l.rtt), nonceOf(l.p.secret, s)})
		}
	}
}

func (l *pathLab) found() bool { return l.p.Stage == Complete || l.p.Stage == Fixed }

// TestPathSearch finds what paths carry, to within the grain, in a few round trips.
func TestPathSearch(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		most, limit int
		rtt         time.Duration
		want        int // 0: within the grain below the limit
		within      time.Duration
		pings       int
	}{
		{65507, 65507, 50 * time.Microsecond, 65507, 50 * time.Microsecond, 1}, // loopback
		{1472, 1472, 100 * time.Microsecond, 1472, 100 * time.Microsecond, 1},
		{8972, 8972, 20 * ms, 8972, 20 * ms, 1},
		{1472, 1372, 200 * time.Microsecond, 1372, 600 * ms, 60},
		{1452, 1232, 200 * time.Microsecond, 1232, 600 * ms, 60},
		{8972, 1472, 200 * time.Microsecond, 1472, time.Second, 90},
		{8952, 1452, 20 * ms, 1452, 10 * time.Second, 90},
		{65507, 1311, time.Millisecond, 0, 2 * time.Second, 140},
		{65507, 64000, time.Millisecond, 0, 2 * time.Second, 140},
		{9000, 1200, ms, 1200, time.Second, 90},
		{1200, 1200, ms, 1200, 0, 0},
		{512, 512, ms, 512, 0, 0},
		{1201, 1201, ms, 1200, 0, 1},
	} {
		l := newPathLab(tc.most, tc.limit, tc.rtt, 1)
		took := l.until(t, time.Minute, l.found)
		want := tc.want
		if want == 0 {
			want = max(l.p.Size, tc.limit-GrainBytes)
		}
		if l.p.Size != want || l.p.Size > tc.limit {
			t.Errorf("%+v: found %d", tc, l.p.Size)
		}
		if took > tc.within || l.pings > tc.pings {
			t.Errorf("%+v: took %v and %d Pings", tc, took, l.pings)
		}
		t.Logf("%d on %d: %d in %v, %d Pings, %d bytes", tc.most, tc.limit, l.p.Size, took, l.pings,
			l.bytes)
	}
}

// TestPathSearchLossy searches where a share of Pings or Pongs is lost: what is found passes, and
// is what there is once larger sizes have been asked for again.
func TestPathSearchLossy(t *testing.T) {
	seed := testenv.Seed(t, rand.Uint64())
	for i := range uint64(200) {
		l := newPathLab(8972, 1472, 300*time.Microsecond, seed+i)
		l.loss = 0.25
		l.until(t, 20*time.Second, func() bool { return l.found() && l.p.Size >= 1472-GrainBytes })
		if l.p.Size > l.limit {
			t.Fatalf("seed %d: found %d", seed+i, l.p.Size)
		}
	}
}

// TestPathHole has a size stop passing in mid-stream: after a few losses in a row it is left, and
// the search finds what passes now; later it finds what passes again.
func TestPathHole(t *testing.T) {
	for _, rtt := range []time.Duration{100 * time.Microsecond, 50 * time.Millisecond} {
		l := newPathLab(8972, 8972, rtt, 3)
		l.until(t, time.Second, l.found)
		l.limit = 1472
		for range lostMax {
			l.p.PacketLost(l.now, 8972, true, l.rng.Uint64())
		}
		if l.p.Stage != Doubting {
			t.Fatal("no doubt")
		}
		took := l.until(t, 2*time.Second, func() bool { return l.p.Size < 8972 })
		if l.p.Size != BaseBytes || l.p.holes != 1 {
			t.Errorf("left for %d, %d holes", l.p.Size, l.p.holes)
		}
		l.until(t, 10*time.Second, l.found)
		if l.p.Size != 1472 {
			t.Errorf("found %d after the hole", l.p.Size)
		}
		l.limit = 8972
		again := l.until(t, time.Hour, func() bool { return l.p.Size == 8972 })
		if again < raiseAfter[0] || again > 2*raiseAfter[0] {
			t.Errorf("raised after %v", again)
		}
		t.Logf("rtt %v: left after %v", rtt, took)
	}
}

// TestPathDoubt raises doubts that are none: the size stays, whatever is lost beside.
func TestPathDoubt(t *testing.T) {
	l := newPathLab(8972, 8972, time.Millisecond, 4)
	l.until(t, time.Second, l.found)
	for range 10 * lostMax {
		if l.p.PacketLost(l.now, BaseBytes, true, 5) {
			t.Fatal("small packets raise a doubt")
		}
	}
	for range 10 * lostMax {
		l.p.PacketLost(l.now, 8972, true, 5)
		if !l.p.WantsDelivered() {
			t.Fatal("does not ask what arrives")
		}
		l.p.Delivered(l.now, l.now, BaseBytes, true)
		l.p.PacketLost(l.now, 5000, true, 5)
		l.p.Delivered(l.now, l.now, 5000, true)
	}
	if l.p.Stage != Complete {
		t.Fatal("losses that are not in a row raise a doubt")
	}
	if !l.p.TooLarge(l.now, 8972, l.rng.Uint64()) || l.p.TooLarge(l.now, 8972, 5) {
		t.Fatal("a refusal raises one doubt")
	}
	l.until(t, time.Second, l.found)
	if l.p.Size != 8972 || l.p.holes != 0 {
		t.Errorf("size %d, %d holes after a doubt", l.p.Size, l.p.holes)
	}
	if l.p.TooLarge(l.now, BaseBytes, 5) {
		t.Error("a refusal of the base is believed")
	}
}

// TestPathStale sends Pongs of before the doubt, and forged ones: they prove nothing.
func TestPathStale(t *testing.T) {
	l := newPathLab(8972, 8972, time.Millisecond, 6)
	old := nonceOf(l.p.secret, 8972)
	for _, nonce := range []uint64{0, old ^ 1<<16, old ^ 1<<63, nonceOf(l.p.secret, 9000)} {
		if l.p.ProbeAcked(l.now, nonce) || l.p.Size != BaseBytes {
			t.Fatalf("believes %x", nonce)
		}
	}
	l.until(t, time.Second, l.found)
	for range lostMax {
		l.p.PacketLost(l.now, 8972, true, l.rng.Uint64())
	}
	if l.p.ProbeAcked(l.now, old) || l.p.Stage != Doubting {
		t.Fatal("believes a Pong of before the doubt")
	}
}

// TestPathNarrow has nothing but the smallest packets pass, from the beginning and in mid-stream.
func TestPathNarrow(t *testing.T) {
	const after = 5 * time.Second
	for _, tc := range []struct{ most, limit int }{{1472, 700}, {8972, 1199}} {
		l := newPathLab(tc.most, tc.limit, time.Millisecond, 7)
		took := l.until(t, time.Minute, func() bool { return l.p.Narrow(l.now, after) })
		if took < after || took > after+2*time.Second {
			t.Errorf("narrow from the beginning after %v", took)
		}
		l = newPathLab(tc.most, tc.most, time.Millisecond, 8)
		l.until(t, time.Second, l.found)
		l.limit = tc.limit
		for range lostMax {
			l.p.PacketLost(l.now, tc.most, true, l.rng.Uint64())
		}
		l.until(t, time.Minute, func() bool { return l.p.Narrow(l.now, after) })
		l.limit = 0 // nothing passes at all: that is no narrow path
		l.p.doubt(l.now)
		for range 100 {
			l.now = l.now.Add(time.Second)
			l.ask()
			l.pongs = l.pongs[:0]
			if l.p.Narrow(l.now, after) {
				t.Fatal("a dead path is a narrow one")
			}
		}
	}
	l := newPathLab(1000, 1000, time.Millisecond, 9) // fixed, and it stops
	l.limit = 600
	for range lostMax {
		l.p.PacketLost(l.now, 1000, true, l.rng.Uint64())
	}
	l.until(t, time.Minute, func() bool { return l.p.Narrow(l.now, after) })
	l.limit = 1000
	l.until(t, time.Minute, l.found)
	if l.p.Stage != Fixed || l.p.Size != 1000 {
		t.Errorf("stage %d, size %d after it passes again", l.p.Stage, l.p.Size)
	}
}

// TestPathDoubtEnded loses the Pings of a doubt, but not a packet of the size that leaves
// meanwhile: the path is not narrow. One that left before says nothing of it.
func TestPathDoubtEnded(t *testing.T) {
	for _, old := range []bool{false, true} {
		l := newPathLab(BaseBytes, BaseBytes, time.Millisecond, 5)
		l.p.secret = 1
		if !l.p.TooLarge(l.now, BaseBytes, 1) {
			for range lostMax {
				l.p.PacketLost(l.now, BaseBytes, true, 1)
			}
		}
		if l.p.Stage != Doubting {
			t.Fatal("no doubt")
		}
		began := l.now
		for range roundsMax {
			l.now = l.now.Add(time.Second)
			l.p.Probes(l.now, time.Millisecond, 1, nil)
			l.p.ProbeAcked(l.now, nonceOf(l.p.secret, 0))
		}
		if !l.p.Narrow(l.now, 0) || !l.p.WantsDelivered() {
			t.Fatal("only small packets pass, and the path is not narrow")
		}
		sentAt := began.Add(time.Millisecond)
		if old {
			sentAt = began
		}
		l.p.Delivered(l.now, sentAt, BaseBytes, true)
		if l.p.Narrow(l.now, 0) != old {
			t.Errorf("a packet that left before the doubt: %t; the path is narrow: %t", old, !old)
		}
	}
}

// TestPathDoubtAsksMore: the rounds of a doubt in which the base was asked for in vain ask for it
// several times, so that a path which loses much is not taken for a narrow one.
func TestPathDoubtAsksMore(t *testing.T) {
	l := newPathLab(2*BaseBytes, BaseBytes, time.Millisecond, 5)
	for range lostMax {
		l.p.PacketLost(l.now, BaseBytes, true, 1)
	}
	asked := 0
	for round := 1; !l.p.Narrow(l.now, 0); round++ {
		if round > roundsMax {
			t.Fatalf("not narrow after %d rounds", round)
		}
		l.now = l.now.Add(time.Second)
		for _, size := range l.p.Probes(l.now, time.Millisecond, 1, nil) {
			if size == l.p.Base {
				asked++
			}
		}
		l.p.ProbeAcked(l.now, nonceOf(l.p.secret, 0))
	}
	if asked < roundsMax+2 {
		t.Errorf("narrow after %d Pings of the base", asked)
	}
}

// TestPathRuns has a device drop single packets of a size and let runs of them pass: losses of what
// leaves uncoalesced raise a doubt, whatever arrives in runs meanwhile, and runs do not end it.
func TestPathRuns(t *testing.T) {
	l := newPathLab(1472, 1472, time.Millisecond, 10)
	l.until(t, time.Second, l.found)
	l.limit = 1272
	for i := range lostMax {
		l.p.PacketLost(l.now, 1472, true, l.rng.Uint64())
		if last := i == lostMax-1; last != (l.p.Stage == Doubting) {
			t.Fatalf("%d packets that left uncoalesced are lost; a doubt: %t", i+1, !last)
		}
		l.p.Delivered(l.now, l.now.Add(time.Microsecond), 1472, false)
	}
	if l.p.Stage != Doubting || l.p.Narrow(l.now, 0) {
		t.Fatal("a run has ended the doubt, or the path is narrow")
	}
	rounds := 0
	l.until(t, 5*time.Second, func() bool {
		rounds = max(rounds, int(l.p.tries))
		return l.p.Size < 1472
	})
	if rounds < roundsMaxRuns {
		t.Errorf("the size is left after %d rounds, though runs arrive", rounds)
	}
	l.until(t, 10*time.Second, l.found)
	if l.p.Size != 1272 {
		t.Errorf("found %d", l.p.Size)
	}
	// Of packets that left in runs those that arrive between the losses say enough.
	for range 10 * lostMax {
		l.p.PacketLost(l.now, 1272, false, 5)
		l.p.Delivered(l.now, l.now, 1272, false)
	}
	if l.p.Stage != Complete {
		t.Error("losses that are not in a row raise a doubt")
	}
}

// TestPathRunsNarrow: a path whose runs of the base arrive is not narrow, though each Ping is lost.
func TestPathRunsNarrow(t *testing.T) {
	l := newPathLab(BaseBytes, 700, time.Millisecond, 11)
	l.p.doubt(l.now)
	for range 2 * roundsMaxRuns {
		l.now = l.now.Add(time.Second)
		l.p.Delivered(l.now, l.now, BaseBytes, false)
		l.p.Probes(l.now, time.Millisecond, 1, nil)
		l.p.ProbeAcked(l.now, nonceOf(l.p.secret, 0))
		if l.p.Narrow(l.now, 0) || l.p.proven {
			t.Fatal("narrow, or the base is taken as proven")
		}
	}
	l.p.Delivered(l.now, l.now, BaseBytes, true)
	if !l.p.proven || l.p.Stage == Doubting {
		t.Error("a packet that crossed uncoalesced proves nothing")
	}
}

// TestResume: a search without a probe, or whose first probe is answered, is over, and Resume makes
// the same search again. A search that has found less, or was in doubt, is not over.
func TestResume(t *testing.T) {
	for _, most := range []int{600, BaseBytes, 1472, 8972} {
		var p, again Search
		p.Begin(1, most, 7)
		if most > BaseBytes {
			if p.Over() {
				t.Errorf("up to %d bytes: over before a probe", most)
			}
			p.Probes(1, time.Millisecond, 7, nil)
			p.ProbeAcked(2, p.Nonce(most))
		}
		if !p.Over() {
			t.Errorf("up to %d bytes: not over: %+v", most, p)
		}
		again.Resume(most, 7)
		if p.askedAt = 0; p != again || !again.Over() {
			t.Errorf("up to %d bytes: %+v, again %+v", most, p, again)
		}
		if again.PacketLost(3, most, true, 7); again.Over() {
			t.Errorf("up to %d bytes: over while a packet counts as lost", most)
		}
		if again.Delivered(4, 3, most, true); !again.Over() {
			t.Errorf("up to %d bytes: not over after the next packet: %+v", most, again)
		}
		if again.doubt(3); again.Over() {
			t.Errorf("up to %d bytes: over in doubt", most)
		}
		again.trust(4)
		if again.Over() {
			t.Errorf("up to %d bytes: over after a doubt", most)
		}
	}
}

// TestTells: the loss of a packet says something if the packet is larger than those that each path
// carries, and not larger than the size in use.
func TestTells(t *testing.T) {
	for _, c := range []struct {
		size, inUse int
		want        bool
	}{
		{1472, 1472, true},
		{BaseBytes + 1, 1472, true},
		{BaseBytes, 1472, false},
		{1473, 1472, false},
		{BaseBytes, BaseBytes, true},
		{smallBytes, BaseBytes, false},
		{smallBytes, smallBytes, false},
	} {
		if Tells(c.size, c.inUse) != c.want {
			t.Errorf("%d bytes, %d in use: %v", c.size, c.inUse, !c.want)
		}
	}
}
