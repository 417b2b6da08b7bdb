package reliability

import (
	"testing"
	"time"
)

// TestResendsFitTheWindow checks that many lost packets are not retransmitted all at once, because
// the path has no more room for retransmissions than for other packets.
func TestResendsFitTheWindow(t *testing.T) {
	const rtt = time.Millisecond
	a, _ := newWarm(t, rtt)
	c := &a.policy().cong
	c.window = 64
	a.snd.updateSendLimit()
	base := a.sent
	a.send(40, Data)
	a.after(rtt/2).send(1, Data)
	c.window = 8
	a.after(rtt).ack(base, base+40, base+40)
	a.after(rtt).expire()
	if n := a.snd.Room(); n > 1 { // a packet with a reserved number
		t.Errorf("%d new packets may be sent before those that are lost", n)
	}
	got, _ := a.again()
	if len(got) == 0 || len(got) > int(c.window) || got[0] != Token(base) {
		t.Errorf("sent again with a window of %d packets: %v", c.window, got)
	}
	if got, _ := a.again(); len(got) > 0 {
		t.Errorf("sent again besides: %v", got)
	}
	a.after(rtt).ack(base+len(got), base+len(got)-1, base+40)
	if got, _ := a.again(); len(got) == 0 {
		t.Error("nothing is sent again when the copies have arrived")
	}
}

// TestSlowStart checks when slow start ends, and which window remains.
func TestSlowStart(t *testing.T) {
	const rtt = time.Millisecond
	rules := Adaptive()
	for name, tc := range map[string]struct {
		window, flight, acked, lost int32
		took                        time.Duration
		late                        int // measured round trips above the path's own
		slow                        bool
		least, most                 int32
	}{
		"all arrives":          {2000, 1000, 1000, 0, rtt, 0, true, 2000, 2000},
		"some is lost":         {2000, 1000, 950, 50, rtt, 0, true, 2000, 2000},
		"much is lost":         {2000, 1000, 700, 300, rtt, 0, false, 500, 800},
		"much is missing":      {2000, 1000, 600, 0, rtt, 0, false, 500, 700},
		"few, of which some":   {40, 20, 12, 0, rtt, 0, true, 40, 40},
		"a round that is late": {2000, 1000, 600, 400, 100 * rtt, 0, false, 500, 500},
		"a queue":              {2000, 1000, 1000, 0, rtt, aboveMax, false, 1000, 1000},
		"less than a queue":    {2000, 1000, 1000, 0, rtt, aboveMax - 1, true, 2000, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			var c congestion
			c.init(&rules)
			c.window, c.flight, c.rounds = tc.window, tc.flight, 0
			p := path{base: rtt}
			c.sample(0, rtt, rtt, &p, 1, 1, &rules)
			for range tc.late {
				c.sample(0, 3*rtt, 3*rtt, &p, 1, 1, &rules)
			}
			if c.unhalved != 0 { // during a dip
				c.window, c.unhalved = c.unhalved, 0
			}
			c.acked, c.lost = tc.acked, tc.lost
			c.endRound(&rules, &p, WindowDefault, tc.took)
			if c.slow != tc.slow || c.window < tc.least || c.window > tc.most {
				t.Errorf("slow start %v, window %d; want %v, %d to %d", c.slow, c.window, tc.slow, tc.least,
					tc.most)
			}
		})
	}
}

// TestJudgedStep checks that losses never shrink the window by more than half in one step, because
// the test after each step shows whether a further step is necessary.
func TestJudgedStep(t *testing.T) {
	rules := Adaptive()
	var c congestion
	c.init(&rules)
	c.slow, c.window, c.least, c.base = false, 1000, time.Millisecond, time.Millisecond
	c.acked, c.lost = 200, 1800
	c.endRound(&rules, &path{base: time.Millisecond}, WindowDefault, time.Millisecond)
	if c.window < 500 || c.window > 700 {
		t.Errorf("window %d of 1000 when nine of ten are lost", c.window)
	}
}

// TestStepOfTheLargestWindow checks the growth far above the window that was last too large, on a
// path too short to show delay. The largest window grows like any other window.
func TestStepOfTheLargestWindow(t *testing.T) {
	t.Parallel()
	for _, window := range []int32{1 << 12, 1 << 15, 50_000, WindowMax} {
		c := congestion{window: window, peak: window / 2, base: 20 * time.Microsecond, spread: 2}
		if got, want := c.step(), window/8; got != want {
			t.Errorf("a window of %d grows by %d packets, want %d", window, got, want)
		}
	}
}

// TestLessLossIsNotUsualYet checks a smaller window with less loss that is still high. Such a
// window was also too large. When a further step changes nothing, the remaining loss is that of the
// path.
func TestLessLossIsNotUsualYet(t *testing.T) {
	t.Parallel()
	rules := Adaptive()
	var c congestion
	c.init(&rules)
	p := path{base: time.Millisecond}
	c.slow, c.window, c.base, c.spread = false, 1000, p.base, spreadTime
	// after judges a thousand packets, of which the given number is lost.
	after := func(lost int32) {
		c.skip, c.acked, c.lost, c.least, c.limited = 0, 1000-lost, lost, p.base, true
		c.endRound(&rules, &p, WindowDefault, p.base)
	}
	after(100)
	first := c.window
	if after(30); !c.testing || c.window >= first || c.usual != 0 {
		t.Fatalf("window %d after %d, test %v, usual %d: three in ten are lost still", c.window, first,
			c.testing, c.usual)
	}
	second := c.window
	after(29)
	if c.testing || c.window != first || c.usual < shareUnits*28/1000 {
		t.Errorf("window %d after %d, test %v, usual %d: no less is lost", c.window, second, c.testing,
			c.usual)
	}
	// Next to no loss is left, and the test is over.
	c.usual, c.testing = 0, false
	c.window = 1000
	after(100)
	if after(2); c.testing || c.usual > usualLittle {
		t.Errorf("test %v, usual %d after two of a thousand were lost", c.testing, c.usual)
	}
}

// TestSmallerStepsInAShortQueue checks that the window grows by half as much after unusual loss, if
// the path is long.
func TestSmallerStepsInAShortQueue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spread uint8
		usual  int32
		want   int32
	}{
		"nothing lost": {0, 0, 16}, "lost of late": {9, 0, 8}, "as ever": {9, usualLittle, 16},
	} {
		c := congestion{window: 140, peak: 144, base: time.Millisecond}
		c.spread, c.usual = tc.spread, tc.usual
		if got := c.step(); got != tc.want {
			t.Errorf("%s: grows by %d packets, want %d", name, got, tc.want)
		}
	}
}

// TestOneStepBack checks that delay does not shrink the window again directly after a shrink for
// losses. Only the delay of packets sent after the shrink counts.
func TestOneStepBack(t *testing.T) {
	const rtt = time.Millisecond
	a, _ := newWarm(t, rtt)
	c := &a.policy().cong
	c.slow, c.window, c.spread, c.met, c.skip, c.unhalved = false, 400, spreadTime, false, 0, 0
	a.snd.updateSendLimit()
	base := a.sent
	a.send(20, Data)
	c.counted, c.above, c.base, c.least = [2]int32{900, 100}, 1, rtt, rtt
	a.after(rtt).ack(base+10, base+9) // a round ends
	if c.window >= 400 {
		t.Fatalf("window %d after a tenth was lost", c.window)
	}
	if c.calm.Before(a.snd.next) || c.above != 0 {
		t.Errorf("delay counts from packet %d on, %d times so far; want from %d on", c.calm, c.above,
			a.snd.next)
	}
}

// TestAllAreTestedForAsLong checks the test of a shrunk window on a path without visible delay. A
// small window is not tested for more rounds than a large window.
func TestAllAreTestedForAsLong(t *testing.T) {
	t.Parallel()
	rules := Adaptive()
	rounds := func(window int32) (n int) {
		var c congestion
		c.init(&rules)
		p := path{base: 50 * time.Microsecond}
		c.slow, c.window, c.base, c.spread = false, window, p.base, spreadTime
		c.testing, c.share, c.before = true, shareUnits/10, 2*window
		for ; c.testing && n < 1000; n++ {
			c.skip, c.acked, c.lost, c.least, c.limited = 0, window, 0, p.base, true
			c.endRound(&rules, &p, WindowDefault, p.base)
		}
		return n
	}
	want := rounds(1000)
	for _, window := range []int32{24, 30, 60, 130} {
		if got := rounds(window); got > want || got < want-1 {
			t.Errorf("a window of %d packets is tested for %d rounds, one of 1000 for %d", window, got,
				want)
		}
	}
}
