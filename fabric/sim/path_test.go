package sim_test

import (
	"bytes"
	"math"
	"math/bits"
	"slices"
	"testing"
	"time"

	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// within fails if got differs from want by more than the tolerance.
func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: %.4f, want %.4f +- %.4f", what, got, want, tolerance)
	}
}

// TestRates measures the faults with a probability, with ten thousand datagrams and six standard
// deviations.
func TestRates(t *testing.T) {
	const count, p = 10000, 0.07
	for kind, path := range map[sim.Kind]sim.Path{
		sim.KindLost:       {Loss: p},
		sim.KindDuplicated: {Duplicate: p},
		sim.KindReordered:  {Reorder: p, ReorderDelay: time.Microsecond},
		sim.KindBitFlip:    {BitFlip: p},
		sim.KindTruncated:  {Truncate: p},
		sim.KindJunk:       {Junk: p},
		sim.KindReplayed:   {Replay: p},
		sim.KindBurstLost:  {BurstStart: 1, BurstLoss: p},
	} {
		nw, a, b := pair(t, sim.Config{Seed: 3}, path)
		b.keep = false
		traffic(nw, a, b, count, 40, 2*time.Microsecond)
		got := float64(nw.Counts()[kind]) / count
		within(t, kind.String(), got, p, 6*math.Sqrt(p*(1-p)/count))
		settled(t, nw)
	}
	for kind, faults := range map[sim.Kind]sim.NodeFaults{
		sim.KindSendError: {SendError: p},
		sim.KindRecvError: {RecvError: p},
		// refused sends are posted again
		sim.KindPostAgain: {PostAgain: p / (1 - p), AgainPosts: 1},
	} {
		nw, a, b := pair(t, sim.Config{Seed: 3}, sim.Path{})
		a.node.SetFaults(faults)
		b.node.SetFaults(faults)
		data, tries := make([]byte, 1100), 0
		for range count {
			tries++
			_ = a.try(b, data)
			nw.RunUntil(nw.Now().Add(2 * time.Microsecond))
		}
		want := p
		if kind == sim.KindPostAgain {
			want = p / (1 - p)
		}
		within(t, kind.String(), float64(nw.Counts()[kind])/float64(tries), want, 0.02)
	}
}

func TestNoFaultsByDefault(t *testing.T) {
	nw, a, b := pair(t, sim.Config{}, sim.Path{})
	traffic(nw, a, b, 1000, 1400, time.Microsecond)
	c := nw.Counts()
	if b.received != 1000 || c.Dropped() != 0 || c.Entered() != 1000 {
		t.Errorf("%d of 1000 arrived: %v", b.received, c)
	}
	for i, x := range b.arrived {
		if number(x.data) != i || len(x.data) != 1400 {
			t.Fatalf("datagram %d of %d bytes arrived as number %d", number(x.data), len(x.data), i)
		}
	}
}

func TestDelayIsExact(t *testing.T) {
	const delay = 123456 * time.Nanosecond
	nw, a, b := pair(t, sim.Config{}, sim.Path{Delay: delay})
	nw.RunUntil(1000)
	a.send(b, []byte("x"))
	nw.Inject(sim.Port{Node: 0}, sim.Port{Node: 1}, []byte("y"))
	nw.RunUntil(mono.Time(1000).Add(time.Second))
	if len(b.arrived) != 2 || b.arrived[0].at != 1000+123456 || b.arrived[1].at != 1000+123456 {
		t.Errorf("sent at 1000 with a delay of %v: %v", delay, b.arrived)
	}
	nw.SetPath(a.node, a.node, sim.Path{Delay: 5 * time.Millisecond})
	sent := nw.Now()
	a.send(a, []byte("to myself"))
	nw.RunUntil(nw.Now().Add(time.Second))
	if len(a.arrived) != 1 || a.arrived[0].at != sent.Add(5*time.Millisecond) {
		t.Errorf("to itself: %v", a.arrived)
	}
	if got := nw.Path(a.node, a.node).Delay; got != 5*time.Millisecond {
		t.Errorf("Path tells a delay of %v", got)
	}
}

func TestJitterIsUniform(t *testing.T) {
	const delay, jitter, count = time.Millisecond, 100 * time.Microsecond, 2000
	nw, a, b := pair(t, sim.Config{Seed: 5}, sim.Path{Delay: delay, Jitter: jitter})
	start := nw.Now()
	const gap = 10 * time.Microsecond
	traffic(nw, a, b, count, 20, gap)
	var thirds [3]float64
	overtaken := 0
	for i, x := range b.arrived {
		n := number(x.data)
		late := x.at.Sub(start.Add(time.Duration(n)*gap)) - delay
		// A pass may come up to PassCost after the arrival.
		if late < 0 || late >= jitter+time.Microsecond {
			t.Fatalf("datagram %d came %v late", n, late)
		}
		thirds[min(2, late*3/jitter)]++
		if i > 0 && n < number(b.arrived[i-1].data) {
			overtaken++
		}
	}
	for _, n := range thirds {
		within(t, "a third of the jitter", n/count, 1.0/3, 0.06)
	}
	if overtaken == 0 {
		t.Error("no datagram was overtaken")
	}
}

// TestLineIsExact sends more than the line carries. Datagram n must leave the line when its last
// byte has passed, without any drift from rounding.
func TestLineIsExact(t *testing.T) {
	const rate, size, count = 3e6, 1000, 60 // a third of a millisecond each: never whole nanoseconds
	nw, a, b := pair(t, sim.Config{}, sim.Path{BytesPerSecond: rate, Delay: time.Millisecond})
	start := nw.Now()
	data := make([]byte, size)
	for range count {
		a.send(b, data)
	}
	nw.RunUntil(nw.Now().Add(time.Second))
	if len(b.arrived) != count {
		t.Fatalf("%d of %d arrived", len(b.arrived), count)
	}
	for i, x := range b.arrived {
		want := start.Add(time.Millisecond + time.Duration((i+1)*size*int(time.Second)/rate))
		if x.at != want {
			t.Errorf("datagram %d arrived at %d, want %d", i, x.at, want)
		}
	}
}

// TestTailDropIsExact fills the queue of a line to the byte.
func TestTailDropIsExact(t *testing.T) {
	const rate, size = 1e6, 1000 // a millisecond each
	for _, tc := range []struct{ queueBytes, want int }{
		{0, 20}, {size - 1, 1}, {size, 1}, {5*size - 1, 4}, {5 * size, 5}, {5*size + 1, 5},
	} {
		path := sim.Path{BytesPerSecond: rate, QueueBytes: tc.queueBytes}
		nw, a, b := pair(t, sim.Config{}, path)
		data := make([]byte, size)
		for range 20 {
			a.send(b, data)
		}
		if got := nw.InFlight(); got != tc.want {
			t.Errorf("a queue of %d bytes took %d datagrams of %d, want %d",
				tc.queueBytes, got, size, tc.want)
		}
		if tc.queueBytes != 5*size {
			continue
		}
		nw.RunUntil(nw.Now().Add(time.Millisecond - 1))
		a.send(b, data) // one nanosecond early
		if got := nw.Counts()[sim.KindTailDrop]; got != 16 {
			t.Errorf("%d tail drops of 21, want 16", got)
		}
		nw.RunUntil(nw.Now().Add(1))
		a.send(b, data)
		nw.RunUntil(nw.Now().Add(time.Second))
		if b.received != 6 {
			t.Errorf("%d datagrams arrived, want 6", b.received)
		}
		settled(t, nw)
	}
}

// TestLineIsShared lets two nodes send through one line. The line must send the datagrams of both
// nodes in their order, with one common queue.
func TestLineIsShared(t *testing.T) {
	const rate, size = 1e6, 1000 // a millisecond each
	nw, a, b := pair(t, sim.Config{}, sim.Path{})
	c := newStation(t, nw, "c")
	shared := sim.Path{BytesPerSecond: rate, QueueBytes: 4 * size, Line: new(sim.Line)}
	nw.SetPath(a.node, c.node, shared)
	nw.SetPath(b.node, c.node, shared)
	start, data := nw.Now(), make([]byte, size)
	for range 3 {
		a.send(c, data)
		b.send(c, data)
	}
	a.send(b, data) // has a path of its own
	nw.RunUntil(start.Add(time.Second))
	if len(c.arrived) != 4 || nw.Counts()[sim.KindTailDrop] != 2 || b.received != 1 {
		t.Errorf("%d arrived through the bottleneck, %d beside it; want 4 and 1", len(c.arrived),
			b.received)
	}
	for i, x := range c.arrived {
		if want := start.Add(time.Duration(i+1) * time.Millisecond); x.at != want {
			t.Errorf("datagram %d arrived at %d, want %d", i, x.at, want)
		}
	}
	settled(t, nw)
}

func TestFastLineDoesNotOverflow(t *testing.T) {
	nw, a, b := pair(t, sim.Config{MTUBytes: 1 << 16}, sim.Path{
		BytesPerSecond: math.MaxInt / 2, QueueBytes: 1 << 17,
	})
	traffic(nw, a, b, 20, 1<<16, 0)
	nw.SetPath(a.node, b.node, sim.Path{BytesPerSecond: 1, QueueBytes: math.MaxInt, Delay: 1 << 62})
	for range 20 {
		a.send(b, make([]byte, 1<<16))
	}
	nw.RunUntil(nw.Now().Add(1 << 61))
	settled(t, nw)
	if b.received != 20 {
		t.Errorf("%d of 20 arrived", b.received)
	}
	a.send(b, make([]byte, 1<<16))
	// At the new rate, the time for which the line is busy corresponds to an enormous number of
	// bytes.
	nw.SetPath(a.node, b.node, sim.Path{
		BytesPerSecond: math.MaxInt / 2, QueueBytes: math.MaxInt / 4,
	})
	a.send(b, nil)
	if got := nw.Counts()[sim.KindTailDrop]; got != 1 {
		t.Errorf("%d tail drops, want 1", got)
	}
}

// TestBurstsAreBursty compares the lengths of consecutive losses with those of independent losses
// at the same rate.
func TestBurstsAreBursty(t *testing.T) {
	run := func(p sim.Path) (rate, meanRun float64) {
		const count = 20000
		nw, a, b := pair(t, sim.Config{Seed: 11}, p)
		traffic(nw, a, b, count, 8, time.Microsecond)
		runs, last := 0, -1
		for _, x := range b.arrived {
			n := number(x.data)
			if n != last+1 {
				runs++
			}
			last = n
		}
		lost := float64(count - len(b.arrived))
		return lost / count, lost / float64(runs)
	}
	rate, mean := run(sim.Path{BurstStart: 0.01, BurstEnd: 0.1, BurstLoss: 1})
	within(t, "share in bursts", rate, 0.01/0.11, 0.03)
	within(t, "mean burst", mean, 10, 2)
	rate, mean = run(sim.Path{Loss: rate})
	within(t, "mean run of independent losses", mean, 1/(1-rate), 0.05)
}

func TestReorderHoldsBack(t *testing.T) {
	const gap, hold = 10 * time.Microsecond, time.Millisecond
	nw, a, b := pair(t, sim.Config{Seed: 2}, sim.Path{Reorder: 0.1, ReorderDelay: hold})
	start := nw.Now()
	traffic(nw, a, b, 1000, 8, gap)
	var longest, sum time.Duration
	held := 0
	for _, x := range b.arrived {
		late := x.at.Sub(start.Add(time.Duration(number(x.data)) * gap))
		longest, sum = max(longest, late), sum+late
		if late > time.Microsecond {
			held++
		}
	}
	if c := nw.Counts()[sim.KindReordered]; held > int(c) || held < int(c)*9/10 {
		t.Errorf("%d datagrams came late, %d were held back", held, c)
	}
	within(t, "share of ReorderDelay", float64(sum)/float64(held)/float64(hold), 0.5, 0.15)
	if longest > hold+time.Microsecond || longest < hold*8/10 {
		t.Errorf("the longest was held back for %v, want up to %v", longest, hold)
	}
}

// TestDamage checks the damage of arriving datagrams, which is one to three inverted bits, all
// shorter lengths, and all kinds of junk.
func TestDamage(t *testing.T) {
	const size = 64
	nw, a, b := pair(t, sim.Config{Seed: 4}, sim.Path{BitFlip: 1})
	traffic(nw, a, b, 3000, size, 2*time.Microsecond)
	var flips [5]int
	for i, x := range b.arrived {
		want := make([]byte, size)
		copy(want, []byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)})
		n := 0
		for j := range want {
			n += bits.OnesCount8(want[j] ^ x.data[j])
		}
		flips[min(n, 4)]++
	}
	if flips[0] > 0 || flips[4] > 0 || min(flips[1], flips[2], flips[3]) < 800 {
		t.Errorf("numbers of flipped bits (0, 1, 2, 3, more): %v", flips)
	}
	nw, a, b = pair(t, sim.Config{Seed: 4}, sim.Path{BitFlip: 1})
	for range 500 { // with eight bits, the same bit is often drawn twice
		a.send(b, []byte{0})
		nw.RunUntil(nw.Now().Add(2 * time.Microsecond))
	}
	for _, x := range b.arrived {
		if x.data[0] == 0 {
			t.Fatal("a flip has undone another")
		}
	}
	nw, a, b = pair(t, sim.Config{Seed: 4}, sim.Path{Truncate: 1})
	lengths := make(map[int]int)
	b.sizes = func(n int) { lengths[n]++ }
	traffic(nw, a, b, 3000, size, 2*time.Microsecond)
	if len(lengths) != size || lengths[0] == 0 || lengths[size] > 0 {
		t.Errorf("truncation of %d bytes left %d different lengths: %v", size, len(lengths), lengths)
	}
	nw, a, b = pair(t, sim.Config{Seed: 4}, sim.Path{Junk: 1, Cut: true})
	traffic(nw, a, b, 3000, size, 2*time.Microsecond)
	plausible, longest := 0, 0
	for _, x := range b.arrived {
		longest = max(longest, len(x.data))
		if len(x.data) > 1 && x.data[0] == 0xB7 && x.data[1] >= 0x11 && x.data[1] <= 0x17 {
			plausible++
		}
	}
	if len(b.arrived) != 3000 || longest < 1460 || longest > 1472 {
		t.Errorf("%d pieces of junk, the longest of %d bytes", len(b.arrived), longest)
	}
	within(t, "junk with a plausible header", float64(plausible)/3000, 0.5, 0.06)
}

func TestCopiesAreExact(t *testing.T) {
	nw, a, b := pair(t, sim.Config{Seed: 4}, sim.Path{Duplicate: 1, Jitter: time.Millisecond})
	traffic(nw, a, b, 100, 800, 2*time.Microsecond)
	seen := make(map[int]int)
	for _, x := range b.arrived {
		if len(x.data) != 800 || !bytes.Equal(x.data[4:], make([]byte, 796)) {
			t.Fatal("a copy differs from what was sent")
		}
		seen[number(x.data)]++
	}
	for n := range 100 {
		if seen[n] != 2 {
			t.Errorf("datagram %d arrived %d times, want 2", n, seen[n])
		}
	}
}

// TestReplay checks which old datagrams are sent again, and when.
func TestReplay(t *testing.T) {
	const count, gap = 3000, 2 * time.Microsecond
	sent := uint64(0)
	cfg := sim.Config{Seed: 9, Observe: func(e *sim.Event) {
		switch e.Kind {
		case sim.KindSent:
			sent = e.ID
		case sim.KindReplayed:
			if e.ID >= sent || sent-e.ID > 64 {
				t.Errorf("datagram %d is sent again with %d, want one of the 64 before", e.ID, sent)
			}
		}
	}}
	nw, a, b := pair(t, cfg, sim.Path{Replay: 1})
	start := nw.Now()
	traffic(nw, a, b, count, 20, gap)
	seen := make(map[int]bool)
	var decades [10]int
	for _, x := range b.arrived {
		n := number(x.data)
		if !seen[n] {
			seen[n] = true
			continue
		}
		age := x.at.Sub(start.Add(time.Duration(n) * gap))
		if age > 2*time.Second+70*gap || len(x.data) != 20 {
			t.Fatalf("datagram %d of %d bytes came again after %v", n, len(x.data), age)
		}
		decades[int(math.Log10(float64(age)))]++
	}
	if got := nw.Counts()[sim.KindReplayed]; got != count-1 {
		t.Errorf("%d replays of %d datagrams", got, count)
	}
	for d := 5; d < 9; d++ { // earlier entries are older by their time in the ring
		if decades[d] < 200 {
			t.Errorf("%d replays were about 1e%d ns old: %v", decades[d], d, decades)
		}
	}
}

// TestPathsAreApart checks that the faults of a path depend only on the path's own datagrams and
// settings.
func TestPathsAreApart(t *testing.T) {
	lost := func(others bool) (numbers []int) {
		nw, a, b := pair(t, sim.Config{Seed: 8}, sim.Path{Loss: 0.2})
		c := newStation(t, nw, "c")
		if others {
			for _, to := range []*station{a, c} {
				nw.SetPath(a.node, to.node, sim.Path{Loss: 0.3, Duplicate: 0.2, Jitter: 1000})
				nw.SetPath(b.node, to.node, sim.Path{Loss: 0.3, BitFlip: 0.2, Jitter: 1000})
			}
			a.node.SetFaults(sim.NodeFaults{LateSends: time.Microsecond})
			b.node.SetFaults(sim.NodeFaults{LateSends: time.Microsecond})
		}
		for i := range 500 {
			if others {
				a.send(c, []byte("between"))
				b.send(a, []byte("back"))
			}
			a.send(b, []byte{0, 0, byte(i >> 8), byte(i)})
			nw.RunUntil(nw.Now().Add(20 * time.Microsecond))
		}
		for _, x := range b.arrived {
			numbers = append(numbers, number(x.data))
		}
		return numbers
	}
	alone, among := lost(false), lost(true)
	if len(alone) == 500 || len(alone) != len(among) {
		t.Fatalf("%d of 500 arrive, with other traffic %d", len(alone), len(among))
	}
	for i := range alone {
		if alone[i] != among[i] {
			t.Fatalf("arrival %d is datagram %d, with other traffic %d", i, alone[i], among[i])
		}
	}
}

// TestPathsDiffer checks that the same faults hit different datagrams on two paths, and in the two
// directions of a path.
func TestPathsDiffer(t *testing.T) {
	bad := sim.Path{Loss: 0.5}
	nw, a, b := pair(t, sim.Config{}, bad)
	c := newStation(t, nw, "c")
	nw.SetPath(a.node, c.node, bad)
	nw.SetPath(b.node, a.node, bad)
	nw.RunUntil(1)
	for i := range 64 {
		data := []byte{0, 0, 0, byte(i)}
		a.send(b, data)
		a.send(c, data)
		b.send(a, data)
		nw.RunUntil(nw.Now().Add(10 * time.Microsecond))
	}
	masks := make(map[uint64]bool)
	for _, s := range []*station{a, b, c} {
		var mask uint64
		for _, x := range s.arrived {
			mask |= 1 << number(x.data)
		}
		masks[mask] = true
	}
	if len(masks) != 3 {
		t.Errorf("three paths lose by %d patterns", len(masks))
	}
}

func TestFilter(t *testing.T) {
	nw, a, b := pair(t, sim.Config{}, sim.Path{Delay: 10 * time.Microsecond})
	var last uint64
	nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		if d.ID <= last || d.From != (sim.Port{Node: 0}) || d.To != (sim.Port{Node: 1}) {
			t.Errorf("the filter sees datagram %d from %v to %v", d.ID, d.From, d.To)
		}
		last = d.ID
		switch d.Data[3] {
		case 1:
			return sim.Verdict{Drop: true, Copies: 5}
		case 2:
			return sim.Verdict{Copies: 2}
		case 3:
			return sim.Verdict{Delay: time.Second}
		}
		return sim.Verdict{}
	})
	start := nw.Now()
	traffic(nw, a, b, 5, 8, 10*time.Microsecond)
	var got []int
	for _, x := range b.arrived {
		got = append(got, number(x.data))
	}
	if want := []int{0, 2, 2, 2, 4, 3}; !slices.Equal(got, want) {
		t.Fatalf("arrived: %v, want %v", got, want)
	}
	if late := b.arrived[5].at.Sub(start); late != time.Second+40*time.Microsecond {
		t.Errorf("the delayed one arrived after %v", late)
	}
	nw.SetFilter(nil)
	traffic(nw, a, b, 5, 8, 10*time.Microsecond)
	if len(b.arrived) != 11 {
		t.Errorf("%d arrived, want 11", len(b.arrived))
	}
	settled(t, nw)
}
