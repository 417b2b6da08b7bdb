package sim_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/fabric/sim"
)

// provocations has a cause for each kind of event. The usual cause is traffic of 200 datagrams of
// 1200 bytes from a to b, on a path with a fault or between hosts with a fault.
var provocations = [sim.NumKinds]struct {
	path   sim.Path
	faults sim.NodeFaults
	do     func(nw *sim.Network, a, b *station) // nil: the traffic
}{
	sim.KindSent:       {},
	sim.KindDelivered:  {},
	sim.KindLost:       {path: sim.Path{Loss: 0.1}},
	sim.KindBurstLost:  {path: sim.Path{BurstStart: 0.1, BurstEnd: 0.2, BurstLoss: 0.9}},
	sim.KindDuplicated: {path: sim.Path{Duplicate: 0.1}},
	sim.KindReordered:  {path: sim.Path{Reorder: 0.1, ReorderDelay: time.Millisecond}},
	sim.KindBitFlip:    {path: sim.Path{BitFlip: 0.1}},
	sim.KindChecksum:   {path: sim.Path{BitFlip: 0.1, Checksum: true}},
	sim.KindTruncated:  {path: sim.Path{Truncate: 0.1}},
	sim.KindJunk:       {path: sim.Path{Junk: 0.1}},
	sim.KindReplayed:   {path: sim.Path{Replay: 0.1}},
	sim.KindCut:        {path: sim.Path{Cut: true}},
	sim.KindTooLong:    {path: sim.Path{MTUBytes: 1199}},
	sim.KindTailDrop:   {path: sim.Path{BytesPerSecond: 1e6, QueueBytes: 3000}},
	sim.KindQueueFull: {do: func(nw *sim.Network, a, b *station) {
		b.node.Pause(time.Second)
		b.node.SetFaults(sim.NodeFaults{QueueDatagrams: 10})
		traffic(nw, a, b, 20, 100, time.Microsecond)
	}},
	sim.KindUnreachable: {do: func(nw *sim.Network, a, b *station) {
		b.dom.Close()
		traffic(nw, a, b, 2, 100, time.Microsecond)
	}},
	sim.KindFiltered: {do: func(nw *sim.Network, a, b *station) {
		nw.SetFilter(func(d *sim.Datagram) sim.Verdict { return sim.Verdict{Drop: d.ID%2 == 0} })
		traffic(nw, a, b, 10, 100, time.Microsecond)
	}},
	sim.KindInjected: {do: func(nw *sim.Network, a, b *station) {
		nw.Inject(sim.Port{Node: 0}, sim.Port{Node: 1}, []byte("out of nowhere"))
	}},
	sim.KindPostAgain: {faults: sim.NodeFaults{PostAgain: 0.1, AgainPosts: 3}},
	sim.KindSendError: {faults: sim.NodeFaults{SendError: 0.1}},
	sim.KindRecvError: {faults: sim.NodeFaults{RecvError: 0.1}},
	sim.KindPause:     {do: func(_ *sim.Network, a, _ *station) { a.node.Pause(time.Second) }},
	sim.KindSlow: {do: func(nw *sim.Network, a, b *station) {
		b.node.SetPace(time.Millisecond)
		traffic(nw, a, b, 10, 100, time.Microsecond)
	}},
	sim.KindCrash: {do: func(_ *sim.Network, a, _ *station) { a.node.Crash() }},
	sim.KindOpen:  {do: func(*sim.Network, *station, *station) {}},
	sim.KindRestart: {do: func(_ *sim.Network, a, _ *station) {
		a.dom.Close()
		a.open()
	}},
	sim.KindProcessError: {do: func(_ *sim.Network, a, _ *station) {
		a.fail = errors.New("broken")
		a.node.Kick()
	}},
}

// TestEveryKindHappens causes each kind of event, and checks the events of that kind.
func TestEveryKindHappens(t *testing.T) {
	for kind := range sim.NumKinds {
		t.Run(strings.ReplaceAll(kind.String(), " ", "-"), func(t *testing.T) {
			var seen uint64
			var nw *sim.Network
			observe := func(e *sim.Event) {
				if e.Kind == kind {
					seen++
					checkEvent(t, nw, e)
				}
			}
			p := provocations[kind]
			nw, a, b := pair(t, sim.Config{Seed: 7, Observe: observe}, p.path)
			a.node.SetFaults(p.faults)
			b.node.SetFaults(p.faults)
			if p.do != nil {
				p.do(nw, a, b)
				nw.RunUntil(nw.Now().Add(2 * time.Second))
			} else {
				traffic(nw, a, b, 200, 1200, 10*time.Microsecond)
			}
			if c := nw.Counts(); c[kind] == 0 || c[kind] != seen {
				t.Errorf("%d events counted, %d observed", c[kind], seen)
			}
			settled(t, nw)
		})
	}
}

func checkEvent(t *testing.T, nw *sim.Network, e *sim.Event) {
	t.Helper()
	if nw != nil && e.At != nw.Now() {
		t.Errorf("an event at %d says %d", nw.Now(), e.At)
	}
	if (e.Err != nil) != (e.Kind == sim.KindProcessError) {
		t.Errorf("%v with the error %v", e.Kind, e.Err)
	}
	if entry := e.Kind.Entry() || e.Kind.Drop(); entry && e.ID == 0 {
		t.Errorf("%v of a datagram without number", e.Kind)
	}
}

func TestKindNames(t *testing.T) {
	seen := make(map[string]bool)
	for k := range sim.NumKinds {
		name := k.String()
		if name == "" || name != strings.ToLower(name) || seen[name] {
			t.Errorf("kind %d is called %q", k, name)
		}
		seen[name] = true
		if k.Entry() && k.Drop() {
			t.Errorf("%v is an entry and a drop", k)
		}
	}
	if got := sim.NumKinds.String(); got != "unknown" {
		t.Errorf("no kind is called %q", got)
	}
}

// TestConservation applies all faults at the same time, and accounts for every datagram at every
// millisecond, also when a node crashes with full queues.
func TestConservation(t *testing.T) {
	for seed := range uint64(20) {
		nw, a, b := chaos(t, sim.Config{Seed: seed})
		for i := range 40 {
			chaosTraffic(t, a, b, 25)
			nw.RunUntil(nw.Now().Add(time.Millisecond))
			settled(t, nw)
			if i == 20 {
				b.node.Crash()
				settled(t, nw)
				b.open()
			}
		}
		nw.RunUntil(nw.Now().Add(10 * time.Second))
		settled(t, nw)
		if nw.InFlight() != 0 || nw.Queued() != 0 {
			t.Errorf("ten seconds later %d are in flight, %d wait", nw.InFlight(), nw.Queued())
		}
		for _, v := range nw.Violations() {
			t.Errorf("seed %d: %v", seed, v)
		}
	}
}

// chaos is a pair of stations with every fault of paths and nodes.
func chaos(tb testing.TB, cfg sim.Config) (nw *sim.Network, a, b *station) {
	tb.Helper()
	nw, a, b = pair(tb, cfg, sim.Path{
		Delay: 30 * time.Microsecond, Jitter: 20 * time.Microsecond,
		BytesPerSecond: 50e6, QueueBytes: 20000, Loss: 0.02,
		BurstStart: 0.01, BurstEnd: 0.1, BurstLoss: 0.7, Duplicate: 0.03, Reorder: 0.03,
		ReorderDelay: time.Millisecond, BitFlip: 0.03, Truncate: 0.02, Junk: 0.03, Replay: 0.03,
		Checksum: true, MTUBytes: 1450,
	})
	faults := sim.NodeFaults{
		PostAgain: 0.05, AgainPosts: 10, SendError: 0.02, RecvError: 0.02,
		LateSends: 50 * time.Microsecond, QueueDatagrams: 30,
	}
	a.node.SetFaults(faults)
	b.node.SetFaults(faults)
	b.node.SetPace(100 * time.Microsecond)
	return nw, a, b
}

// chaosTraffic posts count datagrams of different sizes, as many as there are buffers. Refused
// datagrams are not posted again.
func chaosTraffic(tb testing.TB, a, b *station, count int) {
	tb.Helper()
	data := make([]byte, 1472)
	for i := range count {
		if len(a.free) > 0 {
			data[i]++
			_ = a.try(b, data[:1472-i*58])
		}
	}
	a.node.Kick()
}

// chaosHash is the hash of a run with every fault.
func chaosHash(tb testing.TB, cfg sim.Config) uint64 {
	tb.Helper()
	nw, a, b := chaos(tb, cfg)
	defer nw.Close()
	for range 40 {
		chaosTraffic(tb, a, b, 25)
		nw.RunUntil(nw.Now().Add(time.Millisecond))
	}
	b.node.Crash()
	nw.RunUntil(nw.Now().Add(3 * time.Second))
	return nw.Hash()
}

func TestSameSeedSameRun(t *testing.T) {
	hashes := make(map[uint64]uint64)
	memory := new(sim.Memory)
	for seed := range uint64(10) {
		h := chaosHash(t, sim.Config{Seed: seed})
		if again := chaosHash(t, sim.Config{Seed: seed}); again != h {
			t.Errorf("seed %d gave the hashes %x and %x", seed, h, again)
		}
		if again := chaosHash(t, sim.Config{Seed: seed, Memory: memory}); again != h {
			t.Errorf("seed %d gave %x, and with used memory %x", seed, h, again)
		}
		watched := 0
		cfg := sim.Config{Seed: seed, Observe: func(*sim.Event) { watched++ }}
		if again := chaosHash(t, cfg); again != h || watched == 0 {
			t.Errorf("seed %d gave %x, and when watched %x", seed, h, again)
		}
		if other, known := hashes[h]; known {
			t.Errorf("seeds %d and %d gave the same hash", seed, other)
		}
		hashes[h] = seed
	}
}

// TestHashSeesBytes checks that the hash changes with one bit of one datagram, with one address,
// and with one instant.
func TestHashSeesBytes(t *testing.T) {
	run := func(content byte, node string, at time.Duration) uint64 {
		nw, a, b := pair(t, sim.Config{}, sim.Path{})
		c := newStation(t, nw, "c")
		to := map[string]*station{"b": b, "c": c}[node]
		nw.RunUntil(nw.Now().Add(10*time.Microsecond + at))
		a.send(to, []byte{1, 2, content})
		nw.RunUntil(nw.Now().Add(time.Millisecond))
		return nw.Hash()
	}
	base := run(0, "b", 0)
	for what, h := range map[string]uint64{
		"a bit": run(1, "b", 0), "the address": run(0, "c", 0), "a nanosecond": run(0, "b", 1),
	} {
		if h == base {
			t.Errorf("the hash does not change with %s", what)
		}
	}
	if run(0, "b", 0) != base {
		t.Error("the hash changes by itself")
	}
	// The runs of two seeds differ only in the inverted bits.
	hashes := make(map[uint64]bool)
	for seed := range uint64(2) {
		nw, a, b := pair(t, sim.Config{Seed: seed}, sim.Path{BitFlip: 1})
		a.send(b, make([]byte, 800))
		nw.RunUntil(nw.Now().Add(time.Millisecond))
		hashes[nw.Hash()] = true
	}
	if len(hashes) != 2 {
		t.Error("the hash does not see flipped bits")
	}
	// Two late sends differ, and a later send leaves at once.
	clear(hashes)
	for content := range byte(2) {
		nw, a, b := pair(t, sim.Config{}, sim.Path{})
		a.node.SetFaults(sim.NodeFaults{LateSends: time.Second})
		a.send(b, append(make([]byte, 1200), content))
		a.node.SetFaults(sim.NodeFaults{})
		a.send(b, make([]byte, 1200))
		nw.RunUntil(nw.Now().Add(2 * time.Second))
		hashes[nw.Hash()] = true
	}
	if len(hashes) != 2 {
		t.Error("the hash does not see the bytes of a late send")
	}
}

// TestMTUTold checks that the sender of a datagram above the path's MTU is told the MTU. Larger
// datagrams are then refused until the path changes, and smaller datagrams pass.
func TestMTUTold(t *testing.T) {
	nw, a, b := pair(t, sim.Config{}, sim.Path{MTUBytes: 1000, MTUTold: true})
	large, fits := make([]byte, 1001), make([]byte, 1000)
	a.send(b, large)
	a.send(b, fits)
	if err := a.try(b, large); !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("the second one that is too large: %v", err)
	}
	a.send(b, fits)
	nw.SetPath(a.node, b.node, sim.Path{MTUBytes: 1000})
	a.send(b, large)
	a.send(b, large)
	nw.RunUntil(nw.Now().Add(time.Second))
	c := nw.Counts()
	if b.received != 2 || c[sim.KindTooLong] != 3 || c[sim.KindSendError] != 1 {
		t.Errorf("%d received, %d too long, %d refused", b.received, c[sim.KindTooLong],
			c[sim.KindSendError])
	}
	settled(t, nw)
}
