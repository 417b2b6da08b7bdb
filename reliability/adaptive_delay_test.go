package reliability

import (
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// TestVaryingDelayIsNoQueue checks that packets that overtake each other show a varying delay. A
// queue that fills and empties shows no varying delay, however fast the queue changes.
func TestVaryingDelayIsNoQueue(t *testing.T) {
	t.Parallel()
	const base, gap = time.Millisecond, 10 * time.Microsecond
	for name, tc := range map[string]struct {
		rtt         func(i int) time.Duration
		least, most time.Duration
	}{
		"even": {func(int) time.Duration { return base }, 0, 0},
		"a queue": {func(i int) time.Duration {
			return base + time.Duration(min(i%100, 100-i%100))*gap
		}, 0, 0},
		"every other": {func(i int) time.Duration {
			return base + time.Duration(i%2)*base
		}, base / 4, base},
	} {
		// The packets are measured in the order of their arrival.
		var p path
		const count = 1000
		for now := mono.Time(0); now < count*mono.Time(gap)+mono.Time(3*base); now++ {
			now = now.Add(gap - 1)
			for i := range count {
				sent := mono.Time(i) * mono.Time(gap)
				if at := sent.Add(tc.rtt(i)); at > now-mono.Time(gap) && at <= now {
					p.vary(seq.Num(i), sent, tc.rtt(i))
				}
			}
		}
		if p.jitter < tc.least || p.jitter > tc.most {
			t.Errorf("%s: the delay varies by %v, want %v to %v", name, p.jitter, tc.least, tc.most)
		}
	}
}

// TestDip checks that a window that has met the target is divided for two rounds. A sender that
// then measures a lower round trip learns that its window was too large.
func TestDip(t *testing.T) {
	t.Parallel()
	rules := Adaptive()
	p := path{base: 8 * time.Millisecond}
	var c congestion
	c.init(&rules)
	c.slow, c.window, c.flight, c.rounds = false, 400, 400, dipNext
	now := mono.Time(0)
	for range 4 {
		now = now.Add(2 * p.base)
		c.sample(now, 2*p.base, 2*p.base, &p, 1, 1, &rules)
	}
	// According to the delay, the path holds half of the window.
	if c.window != 175 || !c.met || c.ramp == 0 {
		t.Fatalf("window %d after the target was exceeded, want 175, paced", c.window)
	}
	c.endRound(&rules, &p, WindowDefault, p.base)
	if c.window != 175/dipDepth || c.unhalved != 175 {
		t.Fatalf("window %d, and %d to come, want a dip", c.window, c.unhalved)
	}
	p.base /= 2
	c.endRound(&rules, &p, WindowDefault, p.base)
	c.endRound(&rules, &p, WindowDefault, p.base)
	if c.window < 80 || c.window > 90 || c.unhalved != 0 {
		t.Errorf("window %d after the base was found to be half, want half", c.window)
	}
}

// TestDipBelowCredits checks a sender that is limited by credits and never meets the target. If
// there is a queue, the sender sometimes divides the number of packets in flight.
func TestDipBelowCredits(t *testing.T) {
	t.Parallel()
	rules := Adaptive()
	for name, tc := range map[string]struct {
		queue   time.Duration
		limited bool
		dips    bool
	}{
		"a queue": {delayNoise + 1, false, true}, "none": {delayNoise, false, false},
		"by the window": {delayNoise + 1, true, false},
	} {
		p := path{base: 8 * time.Millisecond}
		var c congestion
		c.init(&rules)
		c.slow, c.window, c.rounds, c.base = false, 100, dipNext, p.base
		c.sample(0, p.base+tc.queue, p.base+tc.queue, &p, 1, 1, &rules)
		c.flight, c.limited = 30, tc.limited
		c.endRound(&rules, &p, WindowDefault, p.base)
		if dips := c.unhalved != 0; dips != tc.dips || dips && c.window != 30/dipDepth {
			t.Errorf("%s: divided %v, window %d; want %v, %d", name, dips, c.window, tc.dips, 30/dipDepth)
		}
	}
}

// TestSlowStartFitsThePath checks the window after slow start. The window is computed from the
// packets delivered while the path was full. The window at the time when the queue was seen is too
// large, because the queue is seen a round trip late. A small window is not changed.
func TestSlowStartFitsThePath(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ window, acked, want int32 }{
		{400, 200, 112}, // 200 packets in two round trips: the path holds 100
		{400, 40, 100},  // not less than a quarter
		{400, 4000, 400},
		{fitLeast, 32, 18},
		{fitLeast - 1, 32, fitLeast - 1},
	} {
		rules := Adaptive()
		p := path{base: 8 * time.Millisecond}
		var c congestion
		c.init(&rules)
		c.window, c.flight = tc.window, tc.window
		now := mono.Time(0)
		for range aboveMax {
			now = now.Add(p.base / 8)
			c.sample(now, 2*p.base, 2*p.base, &p, 1, 1, &rules)
		}
		if c.slow || c.unhalved != tc.window || c.window != tc.window/dipDepth {
			t.Fatalf("window %d, %d to come, of %d: want a dip", c.window, c.unhalved, tc.window)
		}
		c.acked = tc.acked
		for range dipRounds {
			c.endRound(&rules, &p, WindowMax, 2*p.base)
		}
		if c.window != tc.want {
			t.Errorf("of %d packets %d came: window %d, want %d", tc.window, tc.acked, c.window, tc.want)
		}
	}
}

// TestExcuse checks that a shrink of the window is undone if the lost packets were only late.
func TestExcuse(t *testing.T) {
	t.Parallel()
	var c congestion
	c.window, c.slow = 100, true
	c.blame(10)
	c.shrink(50)
	if c.excuse(5); c.window != 50 || c.slow {
		t.Errorf("window %d when half of the losses were none", c.window)
	}
	if c.excuse(1); c.window != 100 || !c.slow {
		t.Errorf("window %d, slow start %v when most of the losses were none", c.window, c.slow)
	}
}

// TestProbeWaitsForLatestCopy checks that a probe retransmits the oldest packet, but not before the
// ACK of the packet's latest copy can arrive.
func TestProbeWaitsForLatestCopy(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a, n := newWarm(t, rtt)
	a.send(4, Data)
	a.after(rtt).ack(n, n+3, n+3) // the first three are missing
	a.after(rtt).expire()
	if tokens, _ := a.again(); len(tokens) == 0 {
		t.Fatal("nothing was sent again")
	}
	sent := a.now
	a.policy().progressAt = sent.Add(-time.Hour) // no ACK for a long time
	wait := a.policy().wait[Data]
	if due := a.policy().due(&a.snd); due < sent.Add(wait) {
		t.Errorf("due %v after the oldest packet was sent again, which waits for %v", due.Sub(sent), wait)
	}
}

// TestDelayOfASleeper checks round trips that a sleeping peer may have lengthened. The network's
// part of such a round trip is unknown. The round trip therefore counts neither as a queue nor as
// the absence of a queue.
func TestDelayOfASleeper(t *testing.T) {
	t.Parallel()
	rules := Adaptive()
	p := path{base: time.Millisecond}
	for name, tc := range map[string]struct {
		least, most time.Duration
		above       int32
		seen        time.Duration
	}{
		"busy, a queue":   {3 * p.base, 3*p.base + unreadLeast, 2, 3 * p.base},
		"slept, a queue":  {3 * p.base, 6 * p.base, 2, 3 * p.base},
		"slept, none":     {p.base, p.base + p.base/5, 0, p.base},
		"slept, who says": {p.base, 3 * p.base, 1, 0},
	} {
		var c congestion
		c.init(&rules)
		c.slow, c.window, c.above, c.aboveMin = false, 100, 1, p.base
		c.sample(mono.Time(p.base), tc.least, tc.most, &p, 1, 1, &rules)
		if c.above != tc.above || c.least != tc.seen {
			t.Errorf("%s: %d samples above the target, least of the round %v; want %d, %v", name, c.above,
				c.least, tc.above, tc.seen)
		}
	}
}

// TestJoinedDip checks that a sender divides its window at once if a long-standing queue becomes
// shorter, which shows the dip of another sender. There is no such dip in slow start or in
// competition, or shortly after another dip.
func TestJoinedDip(t *testing.T) {
	t.Parallel()
	rules := Adaptive()
	const noise = delayNoise / 8
	for name, tc := range map[string]struct {
		queue, fall time.Duration
		rounds      uint8
		slow        bool
		compete     bool
		dips        bool
	}{
		"falls":           {2 * delayNoise, noise + 1, dipLeast, false, false, true},
		"noise":           {2 * delayNoise, noise, dipLeast, false, false, false},
		"no queue to see": {delayNoise, noise + 1, dipLeast, false, false, false},
		"has just dipped": {2 * delayNoise, noise + 1, dipLeast - 1, false, false, false},
		"slow start":      {2 * delayNoise, noise + 1, dipLeast, true, false, false},
		"competition":     {2 * delayNoise, noise + 1, dipLeast, false, true, false},
	} {
		p := path{base: 20 * time.Millisecond} // the target is far
		var c congestion
		c.init(&rules)
		c.slow, c.window = tc.slow, 100
		rtt := p.base + tc.queue
		if tc.queue == 2*delayNoise {
			rtt++
		}
		for range 3 * lowRounds {
			c.rounds = 0
			c.sample(0, rtt, rtt, &p, 1, 1, &rules)
			c.endRound(&rules, &p, WindowDefault, p.base)
		}
		c.rounds, c.compete = tc.rounds, tc.compete
		c.sample(0, rtt-tc.fall, rtt-tc.fall, &p, 1, 1, &rules)
		if dips := c.unhalved != 0; dips != tc.dips {
			t.Errorf("%s: divided %v, want %v", name, dips, tc.dips)
		}
	}
}
