package sim_test

import (
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/test/sim/cluster"
)

// crowd is a receiver, its senders, and how much has come.
type crowd struct {
	*cluster.Cluster
	t    *testing.T
	got  int
	seed uint64
}

func newCrowd(t *testing.T, cfg sim.Config) *crowd {
	c, err := cluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &crowd{Cluster: c, t: t, seed: 1}
	t.Cleanup(c.Network.Close)
	return w
}

// open adds a host that takes messages, and counts their bytes.
func (w *crowd) open(name string, cfg btl.Config) *cluster.Host {
	w.t.Helper()
	h := w.Add(name)
	cfg.Random = func() uint64 {
		w.seed = w.seed*6364136223846793005 + 1442695040888963407
		return w.seed ^ w.seed>>29
	}
	if err := h.Open(cfg); err != nil {
		w.t.Fatal(err)
	}
	count := func(_ *btl.Endpoint, _ btl.Tag, data []byte) { w.got += len(data) }
	for _, tag := range []btl.Tag{1, 2} {
		if err := h.Mod.Handle(tag, count); err != nil {
			w.t.Fatal(err)
		}
	}
	h.Start(nil)
	return h
}

func (w *crowd) connect(from, to *cluster.Host) *btl.Endpoint {
	w.t.Helper()
	ep, err := from.Connect(to, 3*time.Second)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Advance(100 * time.Millisecond)
	return ep
}

// stream sends messages for a time, and returns how many bytes have come in it.
func (w *crowd) stream(h *cluster.Host, ep *btl.Endpoint, d time.Duration) int {
	w.t.Helper()
	const depth = 32
	mem, on := make([]byte, 64<<10), true
	var fill func(*btl.Fragment, error)
	fill = func(_ *btl.Fragment, err error) {
		if err != nil {
			w.t.Error("a message of the stream:", err)
		}
		if !on || err != nil {
			return
		}
		f, err := ep.Prepare(1, mem)
		if err != nil {
			w.t.Fatal(err)
		}
		f.Signal, f.OnDone = true, fill
		if _, err := ep.Send(w.Now(), f); err != nil {
			w.t.Fatal(err)
		}
	}
	for range depth {
		fill(nil, nil)
	}
	h.Kick()
	before := w.got
	w.Advance(d)
	on = false
	return w.got - before
}

// TestSenderBesideOthers: beside peers that have streamed once, and are idle or dead since, a
// sender has what it has alone, from a few round trips on.
func TestSenderBesideOthers(t *testing.T) {
	skipRace(t)
	for _, roundTrip := range []time.Duration{50 * time.Microsecond, 10 * time.Millisecond} {
		rate := func(others int, dead bool) int {
			w := newCrowd(t, sim.Config{Seed: 1, QueueDatagrams: 256})
			to, busy := w.open("to", btl.Config{}), w.open("busy", btl.Config{})
			var hosts []*cluster.Host
			for i := range others {
				hosts = append(hosts, w.open(string(rune('a'+i)), btl.Config{}))
			}
			w.SetPaths(sim.Path{Delay: roundTrip / 2, BytesPerSecond: 100e6 / 8, QueueBytes: 1 << 20})
			for _, h := range hosts {
				if got := w.stream(h, w.connect(h, to), 300*time.Millisecond); got == 0 {
					t.Fatal("nothing came")
				}
				w.Advance(time.Second) // what is under way comes to its end
				if dead {
					h.Crash()
				}
			}
			ep := w.connect(busy, to)
			w.stream(busy, ep, 50*time.Millisecond)
			n := w.stream(busy, ep, time.Second)
			if err := w.Check(); err != nil {
				t.Error(err)
			}
			return n
		}
		alone := rate(0, false)
		for _, others := range []int{1, 3} {
			for _, dead := range []bool{false, true} {
				if got := rate(others, dead); got < alone*95/100 {
					t.Errorf("round trip %v, beside %d others (dead: %v): %d bytes in a second, alone %d",
						roundTrip, others, dead, got, alone)
				}
			}
		}
	}
}
