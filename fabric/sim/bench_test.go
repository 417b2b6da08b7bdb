package sim_test

import (
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
)

// exchange sends a batch from a to b, and runs until the batch has arrived and completed.
type exchange struct {
	nw    *sim.Network
	a, b  *station
	sends []fabric.Send
}

func newExchange(tb testing.TB, p sim.Path, batch, sizeBytes int) *exchange {
	tb.Helper()
	nw, a, b := pair(tb, sim.Config{}, p)
	a.keep, b.keep = false, false
	x := &exchange{nw: nw, a: a, b: b}
	for i := range batch {
		x.sends = append(x.sends, fabric.Send{To: a.addr(b), Buf: a.free[i], Len: uint32(sizeBytes)})
	}
	a.free = a.free[:0]
	a.free = append(a.free, make([]fabric.Buf, batch)...)[:0]
	return x
}

func (x *exchange) run() {
	x.a.free = x.a.free[:0]
	if n, err := x.a.ep.Post(x.sends); err != nil {
		x.a.tb.Fatalf("Post took %d: %v", n, err)
	}
	x.nw.RunUntil(x.nw.Now().Add(time.Millisecond))
}

var worst = sim.Path{
	Delay: 30 * time.Microsecond, Jitter: 20 * time.Microsecond, BytesPerSecond: 1e9,
	QueueBytes: 1 << 20, Loss: 0.01, BurstStart: 0.01, BurstEnd: 0.1, BurstLoss: 0.5,
	Duplicate: 0.01, Reorder: 0.01, ReorderDelay: 100 * time.Microsecond, BitFlip: 0.01,
	Truncate: 0.01, Junk: 0.01, Checksum: true,
}

func TestNoAllocations(t *testing.T) {
	for name, tc := range map[string]struct {
		path   sim.Path
		faults sim.NodeFaults
		size   int
	}{
		"small":   {sim.Path{Delay: time.Microsecond}, sim.NodeFaults{}, 64},
		"large":   {sim.Path{Delay: time.Microsecond}, sim.NodeFaults{}, 1472},
		"faults":  {worst, sim.NodeFaults{LateSends: time.Microsecond, RecvError: 0.01}, 1472},
		"replays": {sim.Path{Replay: 0.01}, sim.NodeFaults{}, 1472},
	} {
		x := newExchange(t, tc.path, 16, tc.size)
		x.a.node.SetFaults(tc.faults)
		x.b.node.SetFaults(tc.faults)
		x.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
			return sim.Verdict{Delay: time.Duration(d.ID % 3)}
		})
		for range 300 {
			x.run()
		}
		// The average must be below one allocation in total. An occasional chunk of packets is not
		// a steady cost.
		if got := testing.AllocsPerRun(300, x.run); got != 0 {
			t.Errorf("%s: %v allocations for 16 datagrams", name, got)
		}
		if c := x.nw.Counts(); x.b.received < 601*16*8/10 {
			t.Errorf("%s: only %d datagrams arrived: %v", name, x.b.received, c)
		}
	}
}

func BenchmarkDatagram(b *testing.B) {
	for _, bc := range []struct {
		name string
		path sim.Path
		size int
	}{
		{"64B", sim.Path{Delay: time.Microsecond}, 64},
		{"1472B", sim.Path{Delay: time.Microsecond}, 1472},
		{"1472B/worst", worst, 1472},
	} {
		b.Run(bc.name, func(b *testing.B) {
			const batch = 16
			x := newExchange(b, bc.path, batch, bc.size)
			b.ReportAllocs()
			for i := 0; i < b.N; i += batch {
				x.run()
			}
		})
	}
}

// BenchmarkRun measures a whole short run, which a test over many seeds repeats.
func BenchmarkRun(b *testing.B) {
	for name, memory := range map[string]*sim.Memory{"fresh": nil, "memory": new(sim.Memory)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for seed := range b.N {
				chaosHash(b, sim.Config{Seed: uint64(seed), Memory: memory})
			}
		})
	}
}
