package matrix

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/reliability"
)

// varied makes pairs with one bottleneck of 1 Gbit/s and a queue of so many packets, whose paths
// delay each packet by up to there and back more.
func varied(t *testing.T, count int, rtt, there, back time.Duration, queue int, congestion string,
) (*world, []pair) {
	t.Helper()
	return ruled(t, count, rtt, there, back, queue, reliability.Rules{Congestion: congestion})
}

// ruled is varied with rules of its own.
func ruled(t *testing.T, count int, rtt, there, back time.Duration, queue int,
	rules reliability.Rules,
) (*world, []pair) {
	t.Helper()
	skipRace(t)
	w, err := newWorld(sim.Config{Seed: 1, QueueDatagrams: receiverPackets})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.check(); err != nil {
			t.Error(err)
		}
		w.Network.Close()
	})
	cfg := btl.Config{Profile: "adaptive", SendBuffers: 2 * reliability.WindowDefault / min(count, 4)}
	cfg.Rules = rules
	lines := [2]*sim.Line{new(sim.Line), new(sim.Line)}
	all := make([]pair, count)
	for i := range all {
		hosts, err := w.openAll(2, cfg)
		if err != nil {
			t.Fatal(err)
		}
		p := pair{from: hosts[0], to: hosts[1], line: lines[0]}
		if p.ep, err = w.connect(p.from, p.to); err != nil {
			t.Fatal(err)
		}
		path := sim.Path{
			Delay: rtt/2 + time.Duration(i)*500*time.Nanosecond, Jitter: there, // none in step
			BytesPerSecond: 1e9 / 8, QueueBytes: queue * mtuBytes, Line: lines[0],
		}
		answers := path
		answers.Jitter, answers.Line = back, lines[1]
		w.setPaths(p.from, p.to, path, answers)
		all[i] = p
	}
	return w, all
}

// TestDelayThatVaries has a delay that differs from packet to packet, and no loss: that costs no
// throughput, or not more than it costs without a congestion window.
func TestDelayThatVaries(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	for row, tc := range []struct {
		rtt, there, back time.Duration
		queue            int
		least            float64 // of the line; 0: .9 of what fixed has
	}{
		{200 * us, ms, 0, 400, .8},
		{200 * us, 3 * ms, 0, 400, .8},
		{200 * us, ms, ms, 400, .8},
		{200 * us, 3 * ms, 3 * ms, 400, .8},
		{5 * ms, 5 * ms, 0, 1000, 0},
		{5 * ms, 5 * ms, 5 * ms, 1000, 0},
		{40 * ms, 5 * ms, 0, 4000, 0},
	} {
		for _, size := range sizesOf(row) {
			name := fmt.Sprintf("%v + 0..%v, + 0..%v back, %d B", tc.rtt, tc.there, tc.back, size)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				share := func(congestion string) float64 {
					w, all := varied(t, 1, tc.rtt, tc.there, tc.back, tc.queue, congestion)
					all[0].stream(size)
					w.Advance(500 * ms)
					return w.delivered(noEnd, 800*ms, all[0].to)[0] / (1e9 / 8) / efficiency(size)
				}
				least := tc.least
				if least == 0 {
					least = .9 * share(reliability.CongestionFixed)
				}
				got := share(reliability.CongestionDelay)
				t.Logf("%.3f of the line", got)
				if got < least {
					t.Errorf("%.3f of the line, want %.3f", got, least)
				}
			})
		}
	}
}

// TestManyFlows has many streams begin one after the other at one bottleneck: after a while all get
// the same, know what the path takes without a queue, and so the queue is short.
func TestManyFlows(t *testing.T) {
	const ms = time.Millisecond
	for row, tc := range []manyFlows{
		{16, 200 * time.Microsecond, 1000, 2 * time.Second, 3, 1300 * time.Microsecond},
		{16, ms, 1000, 2 * time.Second, 2, ms},
		{16, 20 * ms, 1700, 2 * time.Second, 1.1, 4 * ms},
		{48, ms, 1000, 3 * time.Second, 2, 3 * ms},
	} {
		for _, size := range sizesOf(row) {
			name := fmt.Sprintf("%d at %v, %d B", tc.flows, tc.rtt, size)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tc.run(t, size)
			})
		}
	}
}

type manyFlows struct {
	flows int
	rtt   time.Duration
	queue int
	after time.Duration
	base  float64 // most that a stream may take for the path's own, in true ones
	// waits is what half of the packets may wait in the queue at most. A full one is 11.8 ms long,
	// that of 1700 packets 20.
	waits time.Duration
}

func (tc *manyFlows) run(t *testing.T, size int) {
	t.Helper()
	w, all := varied(t, tc.flows, tc.rtt, 0, 0, tc.queue, reliability.CongestionDelay)
	to := make([]*host, len(all))
	for i := range all {
		to[i] = all[i].to
		to[i].ofBytes = size
		newStream(all[i].ep, size, max(64*streamBytes/size, 2)).start(all[i].from)
		w.Advance(time.Millisecond)
	}
	w.Advance(tc.after)
	waits := make([]time.Duration, 0, 5000) // what a packet would have waited, every 200 us
	rates := make([]float64, len(to))
	for range cap(waits) {
		for i, r := range w.delivered(noEnd, 200*time.Microsecond, to...) {
			rates[i] += r / float64(cap(waits))
		}
		waits = append(waits, max(all[0].line.FreeAt().Sub(w.Now()), 0))
	}
	sum, most := 0.0, time.Duration(0)
	for i := range all {
		sum += rates[i]
		most = max(most, all[i].ep.Path().Least)
	}
	slices.Sort(waits)
	share, half := sum/(1e9/8)/efficiency(size), waits[len(waits)/2]
	got := fmt.Sprintf("Jain %.3f, %.3f of the line, base up to %v, %v in the queue", jain(rates),
		share, most, half)
	t.Log(got)
	if jain(rates) < .95 || share < .9 || float64(most) > tc.base*float64(tc.rtt) || half > tc.waits {
		t.Errorf("%s; want .95, .9, %.1f of it, %v", got, tc.base, tc.waits)
	}
}

// TestFewPacketsOfEach shows what 16 streams over 200 us, which hold 17 packets, can know of their
// path. With one packet of each on its way the line is not full. With two, the least window, a
// round trip takes almost twice 200 us, and none can see less while all are there. What they take
// for the path's own is near that.
func TestFewPacketsOfEach(t *testing.T) {
	const flows, rtt, most = 16, 200 * time.Microsecond, 1.5
	run := func(rules reliability.Rules) (trip, least time.Duration, share float64) {
		w, all := ruled(t, flows, rtt, 0, 0, 1000, rules)
		to := make([]*host, len(all))
		for i := range all {
			to[i] = all[i].to
			newStream(all[i].ep, streamBytes, 64).start(all[i].from)
			w.Advance(time.Millisecond)
		}
		w.Advance(2 * time.Second)
		for _, rate := range w.delivered(noEnd, time.Second, to...) {
			share += rate / (1e9 / 8) / efficiency(streamBytes)
		}
		for i := range all {
			p := all[i].ep.Path()
			trip, least = max(trip, p.RoundTrip), max(least, p.Least)
		}
		return trip, least, share
	}
	fixed := reliability.Rules{Congestion: reliability.CongestionFixed, WindowPackets: 1}
	one, _, oneShare := run(fixed)
	fixed.WindowPackets = 2
	two, _, twoShare := run(fixed)
	_, base, share := run(reliability.Rules{Congestion: reliability.CongestionDelay})
	t.Logf("one packet of each: %v, %.3f of the line; two: %v, %.3f; as it is: base up to %v, %.3f",
		one, oneShare, two, twoShare, base, share)
	if oneShare > .95 || float64(two) < 1.8*float64(rtt) || twoShare < .95 {
		t.Error("the path is another one")
	}
	if float64(base) > most*float64(two) {
		t.Errorf("base up to %v, want %.1f of %v", base, most, two)
	}
}
