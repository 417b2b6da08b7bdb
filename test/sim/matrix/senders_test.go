package matrix

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
)

// TestManySenders has 64 modules stream to one, all configured by default but for what they may
// keep to send again, over a line of 1 Gbit/s that ends at the receiver, and over fast lines to a
// receiver that is slow itself: all get the same of it, and it is never overrun.
func TestManySenders(t *testing.T) {
	skipRace(t)
	for name, tc := range map[string]struct {
		bytesPerSecond int           // of the line
		pace           time.Duration // of the receiver's passes
		least          float64       // that it gets, in bytes per second
		other          int           // size of messages that is measured beside 16 KiB
	}{
		"a line":          {1e9 / 8, 0, .9 * 1e9 / 8, 1 << 20},
		"a slow receiver": {0, time.Millisecond, 100e6, 1 << 10},
	} {
		for _, size := range []int{1 << 10, streamBytes, 1 << 20} {
			if size != streamBytes && (testing.Short() || size != tc.other && !*allSizes) {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d B", name, size), func(t *testing.T) {
				t.Parallel()
				rates := manySenders(t, size, tc.bytesPerSecond, tc.pace)
				sum := 0.0
				for _, rate := range rates {
					sum += rate
				}
				t.Logf("Jain %.3f, %.1f MB/s", jain(rates), sum/1e6)
				if jain(rates) < .95 || sum < tc.least*efficiency(size) {
					t.Errorf("Jain %.3f, %.1f MB/s; want .95, %.1f", jain(rates), sum/1e6,
						tc.least*efficiency(size)/1e6)
				}
			})
		}
	}
}

// countEach has a host count what it gets of each peer, in bytes.
func (h *host) countEach(t *testing.T) map[*btl.Endpoint]int {
	t.Helper()
	from := map[*btl.Endpoint]int{}
	count := func(ep *btl.Endpoint, _ btl.Tag, data []byte) { from[ep] += len(data) }
	if err := h.Mod.Handle(tagStream, count); err != nil {
		t.Fatal(err)
	}
	return from
}

// manySenders returns what comes of each sender, in bytes per second, from two seconds on.
func manySenders(t *testing.T, size, bytesPerSecond int, pace time.Duration) []float64 {
	t.Helper()
	const senders = 64
	w, err := newWorld(sim.Config{Seed: 1, QueueDatagrams: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Network.Close()
	hosts, err := w.openAll(senders+1, btl.Config{SendBuffers: 512})
	if err != nil {
		t.Fatal(err)
	}
	receiver := hosts[senders]
	from := receiver.countEach(t)
	var there, back sim.Line
	for i, h := range hosts[:senders] {
		ep, err := w.connect(h, receiver)
		if err != nil {
			t.Fatal(err)
		}
		path := sim.Path{Delay: time.Duration(500+i) * time.Microsecond} // none in step
		answers := path
		if bytesPerSecond > 0 {
			path.BytesPerSecond, path.QueueBytes, path.Line = bytesPerSecond, 1<<20, &there
			answers = path
			answers.Line = &back
		}
		w.setPaths(h, receiver, path, answers)
		newStream(ep, size, max(64*streamBytes/size, 2)).start(h)
	}
	receiver.SetPace(pace)
	w.Advance(2 * time.Second)
	clear(from)
	const span = 3 * time.Second
	w.Advance(span)
	rates := make([]float64, 0, senders)
	for _, n := range from {
		rates = append(rates, float64(n)/span.Seconds())
	}
	if n := w.Counts()[sim.KindQueueFull]; n > 0 {
		t.Errorf("the receiver was overrun by %d packets", n)
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
	return append(rates, make([]float64, senders-len(rates))...)
}

// TestBeginTogether has sixteen modules, as many processes on two processors, begin at once to
// stream to one, whose buffer holds 138 packets and which looks into it every 500 us: at first each
// gets a processor but from time to time, so that its answers take long, each another time. That
// says nothing of its path: all get the same, and the receiver is never overrun.
func TestBeginTogether(t *testing.T) {
	skipRace(t)
	for seed := range uint64(2) {
		rates, overruns := beginTogether(t, seed)
		sum := 0.0
		for _, rate := range rates {
			sum += rate
		}
		t.Logf("seed %d: Jain %.3f, %.1f MB/s, %d overruns", seed, jain(rates), sum/1e6, overruns)
		if jain(rates) < .95 || overruns > 0 {
			t.Errorf("seed %d: Jain %.3f, want .95; the receiver was overrun by %d packets", seed,
				jain(rates), overruns)
		}
	}
}

// beginTogether returns what comes of each sender, in bytes per second, and how many packets found
// the buffer full.
func beginTogether(t *testing.T, seed uint64) (rates []float64, overruns uint64) {
	t.Helper()
	const senders = 16
	w, err := newWorld(sim.Config{Seed: 1 + seed, QueueDatagrams: 138})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Network.Close()
	hosts, err := w.openAll(senders+1, btl.Config{})
	if err != nil {
		t.Fatal(err)
	}
	receiver := hosts[senders]
	from := receiver.countEach(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, h := range hosts[:senders] {
		path := sim.Path{Delay: 20*time.Microsecond + time.Duration(rnd.IntN(20_000))}
		w.setPaths(h, receiver, path, path)
		ep, err := h.Mod.Connect(w.Now(), receiver.Mod.Name())
		if err != nil {
			t.Fatal(err)
		}
		newStream(ep, 16<<10, 64).start(h)
		h.SetPace(time.Duration(2+rnd.IntN(20)) * time.Millisecond)
	}
	receiver.SetPace(500 * time.Microsecond)
	w.Advance(100 * time.Millisecond)
	for _, h := range hosts[:senders] {
		h.SetPace(0)
	}
	w.Advance(200 * time.Millisecond)
	clear(from)
	const span = time.Second
	w.Advance(span)
	for _, n := range from {
		rates = append(rates, float64(n)/span.Seconds())
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
	return append(rates, make([]float64, senders-len(rates))...), w.Counts()[sim.KindQueueFull]
}
