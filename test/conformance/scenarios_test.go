package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// TestMain asks at the end that no goroutine is left, and no memory of libfabric's provider shm.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		left, err := filepath.Glob(fmt.Sprintf("/dev/shm/%d:*", os.Getpid()))
		if err != nil || len(left) > 0 {
			fmt.Fprintln(os.Stderr, "the tests have left", left, err)
			code = 1
		}
		for _, file := range left {
			_ = os.Remove(file)
		}
		os.Exit(code)
	}))
}

// scenario is a test that runs on every network that can take it.
type scenario struct {
	name string
	run  func(t *testing.T, fx *fixture)
	on   func(fx *fixture) bool // nil: everywhere
	long bool                   // and about peers and time: not for networks that are brief
	core bool                   // what everybody uses
	// threads says that the scenario has several goroutines. It needs a real network. The race
	// detector runs no other scenario: one goroutine drives all stations there.
	threads bool
}

// shallow networks can have small receive queues.
func shallow(fx *fixture) bool { return !fx.deep }

// scenarios, from simple to involved.
var scenarios = []scenario{
	{name: "rdm_exchange", run: testExchange, core: true},
	{name: "pingpong", run: testPingpong, core: true},
	{name: "tagged_bw", run: testTaggedBW, core: true},
	{name: "flood_sleeping_receiver", run: testFlood},
	{name: "away", run: testAway, on: overSockets},
	{name: "unexpected_msg", run: testUnexpected, core: true},
	{name: "multi_ep", run: testMultiEP, core: true},
	{name: "multi_domain", run: testMultiDomain},
	{name: "resmgmt", run: testResmgmt},
	{name: "resmgmt_tables", run: testTables},
	{name: "inject", run: testInject, core: true},
	{name: "multinode_all2all", run: testAllToAll, core: true},
	{name: "multinode_one2all", run: testOneToAll, long: true},
	{name: "multinode_all2one", run: testAllToOne, on: shallow},
	{name: "multinode_ring", run: testRing},
	{name: "rma_bw", run: testPuts, core: true},
	{name: "rma_pingpong", run: testRMAPingpong, core: true},
	{name: "cq_data", run: testCQData, core: true},
	{name: "rdm_atomic", run: testAtomic, core: true},
	{name: "rma_refused", run: testPutsRefused},
	{name: "rma_remote", run: testRemote, core: true},
	{name: "rma_remote_refused", run: testRemoteRefused},
	{name: "rma_crowd", run: testCrowd, long: true},
	{name: "vector", run: testVector, core: true},
	{name: "keep", run: testKeep, core: true},
	{name: "pull", run: testPull, core: true},
	{name: "up to", run: testUpTo, core: true},
	{name: "av_xfer", run: testAVXfer, long: true},
	{name: "rdm_multi_client", run: testMultiClient, long: true},
	{name: "rdm_stress", run: testStress, long: true},
	{name: "close_outstanding", run: testClose, core: true},
	{name: "stuck_peers", run: testStuckPeers, long: true, core: true},
	{name: "peer_death", run: testPeerDeath, long: true, core: true},
	{name: "ubertest", run: testUber, threads: true},
	{name: "multi_domain_threads", run: testMultiDomainThreads, threads: true},
}

func TestConformance(t *testing.T) {
	for i := range fixtures {
		fx := &fixtures[i]
		t.Run(fx.name, func(t *testing.T) {
			for _, sc := range scenarios {
				if !fx.runs(&sc) {
					continue
				}
				t.Run(sc.name, func(t *testing.T) { sc.run(t, fx) })
			}
		})
	}
}
