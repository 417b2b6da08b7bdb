package fabrictest

import (
	"cmp"
	"testing"
	"time"

	"gobtl/fabric"
)

// Fixture is a provider under test.
type Fixture struct {
	// Name is the name of the provider in failure messages.
	Name string
	// Open opens a new Domain on each call, or fails the test "tb". The endpoints of all Domains of
	// one Fixture must be able to reach each other. The suite closes every Domain that Open has
	// returned, and closes some Domains twice.
	Open func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain
	// Endpoint is the configuration with which the suite opens endpoints. A subtest changes only those
	// fields of the configuration Endpoint that the subtest tests.
	Endpoint fabric.EndpointConfig
	// Patience is the time that the suite waits for an event that must happen, before the test fails.
	// A Patience of 0 means 30 s.
	Patience time.Duration
	// Seed is the seed of the random traffic. A failed test prints its seed, and a run with the
	// printed Seed repeats the random traffic. A Seed of 0 means a new seed for each run.
	Seed uint64

	// NoZeroLength is the reason why this provider does not deliver empty datagrams. NoZeroLength is
	// an empty string if the provider delivers empty datagrams.
	NoZeroLength string
	// NoTruncation is the reason why the provider does not report that a datagram was larger than its
	// buffer. NoTruncation is an empty string if the provider reports datagrams that were larger than
	// their buffers.
	NoTruncation string
	// Skip contains the name of each subtest that must not run, and as its value the reason. Run fails
	// if Skip contains a name that no subtest has.
	Skip map[string]string
}

const defaultPatience = 30 * time.Second

type subtest struct {
	name string
	run  func(t *testing.T, f *Fixture)
}

var subtests = []subtest{
	{"Attributes", testAttributes},
	{"ArenaBuffersAreApart", testArenaBuffersAreApart},
	{"ExchangeBothWays", testExchangeBothWays},
	{"Sizes", testSizes},
	{"EndpointsDoNotMix", testEndpointsDoNotMix},
	{"ThreeDomains", testThreeDomains},
	{"SendToSelf", testSendToSelf},
	{"BatchOrder", testBatchOrder},
	{"BatchStopsAtBadSend", testBatchStopsAtBadSend},
	{"EqualBursts", testEqualBursts},
	{"MixedBursts", testMixedBursts},
	{"SizesChange", testSizesChange},
	{"SurplusWaits", testSurplusWaits},
	{"PollNothing", testPollNothing},
	{"PollOne", testPollOne},
	{"InjectLeavesBuffer", testInjectLeavesBuffer},
	{"SendCompletions", testSendCompletions},
	{"TxQueueFull", testTxQueueFull},
	{"RxQueueFull", testRxQueueFull},
	{"ReceiveBuffersRotate", testReceiveBuffersRotate},
	{"RecvCapacity", testRecvCapacity},
	{"RecvCapacityBursts", testRecvCapacityBursts},
	{"Overflow", testOverflow},
	{"Oversize", testOversize},
	{"Truncation", testTruncation},
	{"BuffersOutsideArena", testBuffersOutsideArena},
	{"MalformedNames", testMalformedNames},
	{"InsertIsCounted", testInsertIsCounted},
	{"RemoveAndInsertAgain", testRemoveAndInsertAgain},
	{"Source", testSource},
	{"SourceNames", testSourceNames},
	{"Addresses", testAddresses},
	{"Gather", testGather},
	{"GatherBounds", testGatherBounds},
	{"GatherLengths", testGatherLengths},
	{"Landing", testLanding},
	{"LandingsChange", testLandingsChange},
	{"WaitTimesOut", testWaitTimesOut},
	{"WaitSeesDatagram", testWaitSeesDatagram},
	{"WaitSeesEarlierDatagram", testWaitSeesEarlierDatagram},
	{"WaitSeesSendCompletion", testWaitSeesSendCompletion},
	{"WakeEndsWait", testWakeEndsWait},
	{"WakeBeforeWait", testWakeBeforeWait},
	{"WaitAndSignals", testWaitAndSignals},
	{"CloseEndpoint", testCloseEndpoint},
	{"CloseDomain", testCloseDomain},
	{"CloseDomainHeld", testCloseDomainHeld},
	{"CloseWithPostedBuffers", testCloseWithPostedBuffers},
	{"ReopenEndpoint", testReopenEndpoint},
	{"ReopenDomain", testReopenDomain},
	{"NoAllocations", testNoAllocations},
	{"RandomTraffic", testRandomTraffic},
	{"ConcurrentDomains", testConcurrentDomains},
}

// Run runs all tests of the suite, each as a subtest of t.
func Run(t *testing.T, f Fixture) {
	t.Helper()
	f.Patience = cmp.Or(f.Patience, defaultPatience)
	known := make(map[string]bool, len(subtests))
	for _, s := range subtests {
		known[s.name] = true
	}
	for name, reason := range f.Skip {
		if !known[name] || reason == "" {
			t.Errorf("%s: Skip[%q] = %q: no such subtest, or no reason", f.Name, name, reason)
		}
	}
	for _, s := range subtests {
		t.Run(s.name, func(t *testing.T) {
			if reason := f.Skip[s.name]; reason != "" {
				t.Skipf("%s: %s", f.Name, reason)
			}
			s.run(t, &f)
		})
	}
}
