package sim_test

import (
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
)

// openModule opens a module on a node and runs it there.
func openModule(tb testing.TB, n *sim.Node, cfg btl.Config, seed uint64) *btl.Module {
	tb.Helper()
	x := seed
	cfg.Random = func() uint64 {
		x = x*6364136223846793005 + 1442695040888963407
		return x ^ x>>33
	}
	dc, err := cfg.DomainConfig(n.Info())
	if err != nil {
		tb.Fatal(err)
	}
	dom, err := n.Open(dc)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := btl.Open(dom, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	n.Run(m)
	return m
}

// until steps until cond is true, for at most limit of virtual time.
func until(tb testing.TB, nw *sim.Network, limit time.Duration, what string, cond func() bool) {
	tb.Helper()
	for end := nw.Now().Add(limit); !cond(); {
		if !nw.Step() || nw.Now() > end {
			tb.Fatalf("at %d: not within %v: %s", nw.Now(), limit, what)
		}
	}
}

// talk lets two modules exchange messages over a bad network, and returns the hash of the run.
func talk(t *testing.T, seed uint64) uint64 {
	t.Helper()
	nw, err := sim.New(sim.Config{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	a, b := nw.Node("a"), nw.Node("b")
	bad := sim.Path{
		Delay: 20 * time.Microsecond, Jitter: 10 * time.Microsecond, Loss: 0.02, Duplicate: 0.01,
		Reorder: 0.01, ReorderDelay: 100 * time.Microsecond, BitFlip: 0.01, Checksum: true,
		BytesPerSecond: 1e9, QueueBytes: 1 << 20,
	}
	nw.SetPath(a, b, bad)
	nw.SetPath(b, a, bad)
	faults := sim.NodeFaults{PostAgain: 0.01, AgainPosts: 5, LateSends: 5 * time.Microsecond}
	a.SetFaults(faults)
	b.SetFaults(faults)
	small := btl.Config{SendBuffers: 256, RecvDepth: 64}
	ma := openModule(t, a, small, seed)
	mb := openModule(t, b, small, seed+1)
	got := 0
	count := func(_ *btl.Endpoint, _ btl.Tag, data []byte) { got += len(data) }
	if err := mb.Handle(5, count); err != nil {
		t.Fatal(err)
	}
	ep, err := ma.Connect(ma.Now(), mb.Name())
	if err != nil {
		t.Fatal(err)
	}
	a.Kick()
	until(t, nw, time.Second, "connected", ep.Connected)
	const messages, sizeBytes = 50, 20000
	data := make([]byte, sizeBytes)
	for range messages {
		f, err := ep.Alloc(5, sizeBytes)
		if err != nil {
			t.Fatal(err)
		}
		copy(f.Bytes(), data)
		if _, err := ep.Send(ep.Now(), f); err != nil {
			t.Fatal(err)
		}
	}
	a.Kick()
	until(t, nw, 10*time.Second, "all received", func() bool { return got == messages*sizeBytes })
	nw.RunUntil(nw.Now().Add(time.Second))
	for _, v := range nw.Violations() {
		t.Error(v)
	}
	if packets, fragments := ep.Outstanding(); packets+fragments > 0 {
		t.Errorf("a second later %d packets and %d fragments are outstanding", packets, fragments)
	}
	return nw.Hash()
}

func TestModulesTalk(t *testing.T) {
	first := talk(t, 1)
	if again := talk(t, 1); again != first {
		t.Errorf("the same seed gave the hashes %x and %x", first, again)
	}
	if other := talk(t, 2); other == first {
		t.Errorf("two seeds gave the hash %x", first)
	}
}
