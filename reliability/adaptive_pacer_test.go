package reliability

import (
	"testing"
	"time"
)

// sendAll sends all permitted packets for the time d, with only the timer to release more. The
// results are the number of packets sent, and the largest number sent at once. Like large messages,
// sendAll leaves a few packets of room unused.
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

// TestPace checks how a window that opens at once is spread over the round trip.
func TestPace(t *testing.T) {
	const rtt, window = 10 * time.Millisecond, 800
	for name, tc := range map[string]struct {
		congestion  string
		slow, calm  bool // in slow start; no recent losses
		rtt         time.Duration
		burst       int // most packets at once
		least, most int // packets in a quarter of a round trip
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
				// no other timer releases packets
				r.ProbeTimeoutMin, r.ResendTimeoutMin = time.Second, time.Second
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

// TestLoneBurstIsNotPaced checks that a few packets on an idle path do not wait, however slow the
// path is.
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

// TestPacedWindowGrows checks a sender that runs only now and then, and then sends a burst as large
// as the pace permits. The window of such a sender must grow if more packets wait, like the window
// of a sender that fills its window.
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
