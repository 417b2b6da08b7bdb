package reliability

import (
	"testing"
	"time"
)

// sendAll sends whatever may be sent, for so long, with nothing but the timer to help, and returns
// how much left in all and how much at once at most. As large messages do, it leaves a few places.
func (a *driven) sendAll(t *testing.T, d time.Duration) (total, most int) {
	t.Helper()
	const spare = 8
	for end := a.now.Add(d); ; {
		n := max(a.snd.Room()-spare, 0)
		a.send(n, Data)
		if p := &a.policy().pacer; p.on && n > 0 && a.segs.Deadline() > max(p.due, a.now)+adaptiveTickNs {
			t.Fatalf("nothing brings the next packets at %d: the timer ends at %d", p.due, a.segs.Deadline())
		}
		total, most = total+n, max(most, n)
		at := a.segs.Deadline()
		if at > end {
			a.now = end
			return total, most
		}
		a.now = max(a.now, at)
		a.expire()
	}
}

// TestPace looks at how a window leaves that opens at once.
func TestPace(t *testing.T) {
	const rtt, window = 10 * time.Millisecond, 800
	for name, tc := range map[string]struct {
		congestion  string
		slow, calm  bool // slow start; nothing was lost of late
		rtt         time.Duration
		burst       int // at once, at most
		least, most int // in a quarter of a round trip
	}{
		"after losses":      {CongestionDelay, false, false, rtt, 100, 200, 360},
		"no losses":         {CongestionDelay, false, true, rtt, 800, 780, 800},
		"no window":         {CongestionFixed, false, false, rtt, 1024, 1000, 1024},
		"slow start":        {CongestionDelay, true, true, rtt, 100, 400, 520},
		"a short path":      {CongestionDelay, true, true, rtt / 100, 800, 780, 800},
		"short, and losses": {CongestionDelay, false, false, rtt / 100, 100, 200, 460},
	} {
		t.Run(name, func(t *testing.T) {
			a := newDriven(t, func(r *Rules) {
				r.Congestion, r.WindowPackets = tc.congestion, 1024
				r.ProbeTimeoutMin, r.ResendTimeoutMin = time.Second, time.Second // no other timer helps
			})
			a.warm(tc.rtt)
			c := &a.policy().cong
			c.window, c.slow, c.spread = window, tc.slow, spreadTime
			if tc.calm {
				c.spread = 0
			}
			a.policy().pace(&a.snd, a.now)
			a.snd.updateSendLimit()
			total, most := a.sendAll(t, tc.rtt/4)
			if total < tc.least || total > tc.most || most > tc.burst {
				t.Errorf("%d packets in a quarter of a round trip, %d at once; want %d to %d, %d", total,
					most, tc.least, tc.most, tc.burst)
			}
		})
	}
}

// A few packets on an idle path do not wait, however slow it is.
func TestLoneBurstIsNotPaced(t *testing.T) {
	const rtt = 10 * time.Millisecond
	a, _ := newWarm(t, rtt)
	c := &a.policy().cong
	for range 3 {
		c.window, c.spread = 20, spreadTime
		a.policy().pace(&a.snd, a.now)
		a.snd.updateSendLimit()
		if n := a.snd.Room(); n < paceBurst {
			t.Fatalf("%d packets may leave at once", n)
		}
		a.send(paceBurst, Data)
		a.after(rtt).ack(a.sent, a.sent-1)
	}
}

// A sender that gets a processor now and then, and sends a burst then, as the pace allows, has its
// window bound it no less than one whose packets fill the window: it grows, if more waits.
func TestPacedWindowGrows(t *testing.T) {
	const rtt, burst, window, rounds = 10 * time.Millisecond, 8, 64, 40
	for name, tc := range map[string]struct {
		slow, waits bool
		least, most int32
	}{
		"slow start":           {true, true, 2 * window, WindowMax},
		"after losses":         {false, true, 2 * window, WindowMax},
		"slow start, but idle": {true, false, window, window},
		"losses, but idle":     {false, false, window, window},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := newWarm(t, rtt)
			c := &a.policy().cong
			c.window, c.slow, c.spread, c.peak = window, tc.slow, spreadTime, 512
			for range rounds {
				a.policy().pace(&a.snd, a.now)
				a.snd.updateSendLimit()
				a.send(burst, Data)
				if tc.waits {
					a.snd.NoteBlocked()
				}
				a.after(rtt).ack(a.sent, a.sent-1)
			}
			if c.window < tc.least || c.window > tc.most {
				t.Errorf("the window is %d, want %d to %d", c.window, tc.least, tc.most)
			}
		})
	}
}
