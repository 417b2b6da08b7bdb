package fabrictest

import (
	"cmp"
	"testing"
	"time"

	"gobtl/fabric"
)

// Fixture is a provider under test.
type Fixture struct {
	// Name is shown in failures.
	Name string
	// Open opens a new Domain on each call, or fails tb. All the Domains of one Fixture reach each
	// other. The suite closes them, some more than once.
	Open func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain
	// Endpoint is what the suite's endpoints are opened with; a subtest changes what it is about.
	Endpoint fabric.EndpointConfig
	// Patience is how long the suite waits for something that must happen. 0 means 30 s, which only a
	// machine without a core to spare comes near.
	Patience time.Duration
	// Seed repeats the random traffic that a failure has named. 0 takes a new one for each run.
	Seed uint64

	// NoZeroLength, when it is not empty, is the reason why datagrams without bytes do not arrive.
	NoZeroLength string
	// NoTruncation, when it is not empty, is the reason why the provider cannot tell that a datagram
	// was larger than the buffer it arrived in.
	NoTruncation string
	// Skip leaves whole subtests out: their name and the reason. A name that is no subtest fails.
	Skip map[string]string
}

const defaultPatience = 30 * time.Second

type subtest struct {
	name string
	run  func(t *testing.T, f *Fixture)
}

// subtests in the order from simple to involved, so that the first failure is the most telling one.
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

// Run runs the whole suite, each part as a subtest of t.
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
