package matrix

import (
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/reliability"
)

// TestLongPath has one stream on a path of 300 ms and 1 Gbit/s, which holds 25475 packets: the
// largest window fills it, the usual one as far as it goes.
func TestLongPath(t *testing.T) {
	skipRace(t)
	for _, tc := range []struct {
		window int
		least  float64 // of the line
	}{
		{reliability.WindowMax, .9},
		{reliability.WindowDefault, .13}, // seven eighths of a window each round trip
	} {
		c := clean(300*time.Millisecond, 1e9, 1)
		w, err := newWorld(sim.Config{Seed: 1, QueueDatagrams: 2 * reliability.WindowMax})
		if err != nil {
			t.Fatal(err)
		}
		cfg := btl.Config{Profile: "adaptive"}
		cfg.Rules.WindowPackets = tc.window
		hosts, err := w.openAll(2, cfg)
		if err != nil {
			t.Fatal(err)
		}
		ep, err := w.connect(hosts[0], hosts[1])
		if err != nil {
			t.Fatal(err)
		}
		w.setPaths(hosts[0], hosts[1], c.path(new(sim.Line)), c.path(new(sim.Line)))
		newStream(ep, 256<<10, 512).start(hosts[0])
		w.Advance(6 * time.Second)
		got := w.delivered(noEnd, 10*c.RTT, hosts[1])[0] / (1e9 / 8)
		s := hosts[0].Mod.Stats()
		t.Logf("window of %d: %.3f of the line, %d of %d packets sent again", tc.window, got,
			s.Retransmits(), s.SegmentsSent())
		if got < tc.least {
			t.Errorf("window of %d: %.3f of the line, want %.2f", tc.window, got, tc.least)
		}
		if err := w.check(); err != nil {
			t.Error(err)
		}
		w.Network.Close()
	}
}

// cramped makes a sender and a receiver whose buffer holds 138 packets, as a socket does on a
// system that nobody has tuned, and connects them over a path of 1 Gbit/s.
func cramped(t *testing.T, rtt time.Duration) (*world, []*host, *btl.Endpoint) {
	t.Helper()
	skipRace(t)
	c := clean(rtt, 1e9, 1)
	w, err := newWorld(sim.Config{Seed: 1, QueueDatagrams: 138})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.check(); err != nil {
			t.Error(err)
		}
		w.Network.Close()
	})
	hosts, err := w.openAll(2, btl.Config{Profile: "adaptive"})
	if err != nil {
		t.Fatal(err)
	}
	w.setPaths(hosts[0], hosts[1], c.path(new(sim.Line)), c.path(new(sim.Line)))
	ep, err := hosts[0].Connect(hosts[1].Host, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	w.Advance(time.Second)
	newStream(ep, 64<<10, 256).start(hosts[0])
	return w, hosts, ep
}

// TestCrampedReceiver: a receiver that reads what comes has a long path filled by credits for much
// more than its buffer holds, and nothing finds it full.
func TestCrampedReceiver(t *testing.T) {
	for _, tc := range []struct {
		rtt   time.Duration
		least float64 // of the line
	}{{5 * time.Millisecond, .8}, {20 * time.Millisecond, .8}, {40 * time.Millisecond, .8}} {
		w, hosts, _ := cramped(t, tc.rtt)
		w.Advance(2 * time.Second)
		got := w.delivered(noEnd, time.Second, hosts[1])[0] / (1e9 / 8)
		lost := w.Counts()[sim.KindQueueFull]
		t.Logf("%v: %.3f of the line, %d packets found the buffer full", tc.rtt, got, lost)
		if got < tc.least || lost > 0 {
			t.Errorf("%v: %.3f of the line, want %.2f; %d packets found the buffer full", tc.rtt, got,
				tc.least, lost)
		}
	}
}

// TestCrampedAndSlow: a receiver that reads 128 packets in 2 ms, and whose buffer holds 138, cannot
// have as many come as a path of 20 ms takes. That is seen, and then next to none find it full.
func TestCrampedAndSlow(t *testing.T) {
	w, hosts, _ := cramped(t, 20*time.Millisecond)
	hosts[1].SetPace(2 * time.Millisecond)
	w.Advance(2 * time.Second)
	before := w.Counts()[sim.KindQueueFull]
	got := w.delivered(noEnd, 3*time.Second, hosts[1])[0] / (1e9 / 8)
	lost := w.Counts()[sim.KindQueueFull] - before
	t.Logf("%.3f of the line, %d packets found the buffer full, %d before", got, lost, before)
	if before == 0 || lost > 20 || got < .1 {
		t.Errorf("%.3f of the line, %d packets found the buffer full, %d before that was seen", got, lost,
			before)
	}
}
