package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/testenv"
	"gobtl/test/sim/cluster"
)

// simNet is a network of the simulator.
type simNet struct {
	*cluster.Cluster

	path   sim.Path
	faults sim.NodeFaults
}

// passCost is that of a slow host, which saves real time where a module is busy waiting.
const passCost = 10 * time.Microsecond

// openClean is a network that loses nothing but what finds a queue full.
func openClean(tb testing.TB, o opts) network {
	return openSim(tb, sim.Config{QueueDatagrams: o.queueDatagrams, PassCost: passCost},
		sim.Path{Delay: 5 * time.Microsecond, BytesPerSecond: 10e9 / 8}, sim.NodeFaults{})
}

// openRough is a network with every fault that the transport has to live with, on hosts that
// refuse and delay operations. Altered datagrams are dropped by the receiving NIC, as the protocol
// demands.
func openRough(tb testing.TB, o opts) network {
	cfg := sim.Config{QueueDatagrams: o.queueDatagrams, InjectBytes: -1, PassCost: passCost}
	return openSim(tb, cfg,
		sim.Path{
			Delay: 10 * time.Microsecond, Jitter: 5 * time.Microsecond, BytesPerSecond: 1e9,
			Loss: 0.01, BurstStart: 0.001, BurstEnd: 0.3, BurstLoss: 0.5,
			Duplicate: 0.01, Reorder: 0.01, ReorderDelay: 100 * time.Microsecond,
			BitFlip: 0.01, Checksum: true, Truncate: 0.005, Junk: 0.005, Replay: 0.005,
		},
		sim.NodeFaults{
			PostAgain: 0.01, AgainPosts: 4, SendError: 0.002, RecvError: 0.002,
			LateSends: 20 * time.Microsecond,
		})
}

func openSim(tb testing.TB, cfg sim.Config, path sim.Path, faults sim.NodeFaults) network {
	tb.Helper()
	cfg.Seed = testenv.Seed(tb, 1)
	nw, err := cluster.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("counts %v", nw.Counts())
		}
	})
	return &simNet{Cluster: nw, path: path, faults: faults}
}

func (nw *simNet) now() btl.Time { return nw.Now() }

func (nw *simNet) step() bool { return nw.Step() == nil }

func (nw *simNet) advance(to btl.Time) { nw.RunUntil(to) }

func (nw *simNet) check() error { return errors.Join(nw.Violations()...) }

// station makes a node whose paths to and from all nodes, itself included, are the network's.
func (nw *simNet) station(testing.TB) station {
	n := nw.Add(fmt.Sprintf("node%d", len(nw.Hosts)))
	n.SetFaults(nw.faults)
	nw.SetPaths(nw.path)
	return simStation{n}
}

type simStation struct{ *cluster.Host }

func (s simStation) open(cfg btl.Config) (fabric.Domain, error) {
	return s.Domain(cfg)
}

func (s simStation) run(p process) {
	if p == nil {
		s.Run(nil)
		return
	}
	s.Run(p)
}

func (s simStation) kick() { s.Kick() }

func (s simStation) pause(d time.Duration) { s.Pause(d) }

func (s simStation) crash() { s.Node.Crash() }
