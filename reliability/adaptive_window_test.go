package reliability

import (
	"testing"
	"time"
)

// Many losses at once are not sent again all at once: copies are packets like others, and have no
// more room on the path.
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
	if n := a.snd.Room(); n > 1 { // one that was promised
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

// TestSlowStart looks at when slow start ends, and what window remains.
func TestSlowStart(t *testing.T) {
	const rtt = time.Millisecond
	rules := Adaptive()
	for name, tc := range map[string]struct {
		window, flight, acked, lost int32
		took                        time.Duration
		late                        int // round trips measured that are above the path's
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
			c.sample(0, rtt, &p, 1, 1, &rules)
			for range tc.late {
				c.sample(0, 3*rtt, &p, 1, 1, &rules)
			}
			if c.unhalved != 0 { // for a moment
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

// A step back after losses is never by more than half, whatever is lost: there is a test after each
// that shows whether more is needed.
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

// TestStepOfTheLargestWindow: far above the window that was too large last, on a path too short for
// delay to tell, the largest window grows as any other.
func TestStepOfTheLargestWindow(t *testing.T) {
	t.Parallel()
	for _, window := range []int32{1 << 12, 1 << 15, 50_000, WindowMax} {
		c := congestion{window: window, peak: window / 2, base: 20 * time.Microsecond, spread: 2}
		if got, want := c.step(), window/8; got != want {
			t.Errorf("a window of %d grows by %d packets, want %d", window, got, want)
		}
	}
}
