package bench

import "context"

// The constants are the units of the figures.
const (
	unitTime     = "us"
	unitBytes    = "MB/s"
	unitMessages = "messages/s"
)

// test describes a test that the user can select.
type test struct {
	name, title string
	unit        string
	two, pairs  bool // two: only ranks 0 and 1; pairs: an even number of ranks
	unsized     bool
	fixed       int     // the only size in bytes; 0: any size
	values      bool    // messages consist of values of valueBytes
	share       float64 // ratio of a sample to the reported time; round trip: 2
	// amount returns the amount of data or messages of one iteration for a test that reports a
	// rate, and is nil for a test that reports a time.
	amount func(t *trial) float64
	// prepare returns a function that runs a given number of iterations at this rank.
	prepare func(t *trial) func(ctx context.Context, n int) error
}

// valueBytes is the size in bytes of the values in reductions.
const valueBytes = 8

// tests lists all tests in the order of the documentation.
var tests = []*test{
	{
		name: "latency", unit: unitTime, two: true, share: 2, prepare: latency,
		title: "Latency: ping-pong, half round trips",
	},
	{
		name: "latency_mt", unit: unitTime, two: true, share: 2, prepare: latencyThreads,
		title: "Latency of several goroutines at once, half round trips",
	},
	{
		name: "vector_latency", unit: unitTime, two: true, share: 2, prepare: vectorLatency,
		title: "Latency of every second block of 256 bytes, half round trips",
	},
	{
		name: "bw", unit: unitBytes, two: true, amount: windowMB, prepare: oneWay,
		title: "Bandwidth: windows of messages, each window answered",
	},
	{
		name: "bibw", unit: unitBytes, two: true, amount: bothMB, prepare: bothWays,
		title: "Bandwidth of both directions together",
	},
	{
		name: "mbw_mr", unit: unitMessages, pairs: true, amount: windowMessages, prepare: oneWay,
		title: "Messages of all pairs together: windows, each answered",
	},
	{
		name: "put_latency", unit: unitTime, two: true, share: 1, prepare: putLatency,
		title: "Put and flush",
	},
	{
		name: "get_latency", unit: unitTime, two: true, share: 1, prepare: getLatency,
		title: "Get and flush",
	},
	{
		name: "acc_latency", unit: unitTime, two: true, share: 1, values: true,
		prepare: accumulateLatency, title: "Accumulate and flush, sums of float64",
	},
	{
		name: "fop_latency", unit: unitTime, two: true, share: 1, fixed: valueBytes,
		prepare: fetchLatency, title: "Fetch-and-add",
	},
	{
		name: "cas_latency", unit: unitTime, two: true, share: 1, fixed: valueBytes,
		prepare: swapLatency, title: "Compare-and-swap",
	},
	{
		name: "put_bw", unit: unitBytes, two: true, amount: windowMB, prepare: putFlow,
		title: "Bandwidth of puts: windows of them, each flushed",
	},
	{
		name: "get_bw", unit: unitBytes, two: true, amount: windowMB, prepare: getFlow,
		title: "Bandwidth of gets: windows of them, each flushed",
	},
	{
		name: "put_bibw", unit: unitBytes, two: true, amount: bothMB, prepare: putBoth,
		title: "Bandwidth of puts of both directions together: windows, each fenced",
	},
	{
		name: "barrier", unit: unitTime, unsized: true, share: 1, prepare: collective(barrier),
		title: "Barrier",
	},
	{name: "bcast", title: "Bcast", unit: unitTime, share: 1, prepare: collective(bcast)},
	{
		name: "reduce", title: "Reduce, sums of float64", unit: unitTime, share: 1, values: true,
		prepare: collective(reduce),
	},
	{
		name: "allreduce", title: "Allreduce, sums of float64", unit: unitTime, share: 1, values: true,
		prepare: collective(allreduce),
	},
	{
		name: "reduce_scatter", title: "ReduceScatter, sums of float64", unit: unitTime, share: 1,
		values: true, prepare: collective(reduceScatter),
	},
	{
		name: "scan", title: "Scan, sums of float64", unit: unitTime, share: 1, values: true,
		prepare: collective(scan),
	},
	{
		name: "exscan", title: "Exscan, sums of float64", unit: unitTime, share: 1, values: true,
		prepare: collective(exscan),
	},
	{name: "gather", title: "Gather", unit: unitTime, share: 1, prepare: collective(gather)},
	{name: "gatherv", title: "Gatherv", unit: unitTime, share: 1, prepare: collective(gatherv)},
	{name: "scatter", title: "Scatter", unit: unitTime, share: 1, prepare: collective(scatter)},
	{name: "scatterv", title: "Scatterv", unit: unitTime, share: 1, prepare: collective(scatterv)},
	{
		name: "allgather", title: "Allgather", unit: unitTime, share: 1,
		prepare: collective(allgather),
	},
	{
		name: "allgatherv", title: "Allgatherv", unit: unitTime, share: 1,
		prepare: collective(allgatherv),
	},
	{name: "alltoall", title: "Alltoall", unit: unitTime, share: 1, prepare: collective(alltoall)},
	{
		name: "alltoallv", title: "Alltoallv", unit: unitTime, share: 1,
		prepare: collective(alltoallv),
	},
}

// Tests returns the names of all tests.
func Tests() (names []string) {
	for _, x := range tests {
		names = append(names, x.name)
	}
	return names
}

// Title returns the heading of a test, or an empty string if there is no such test.
func Title(name string) string {
	if x := find(name); x != nil {
		return x.title
	}
	return ""
}

func find(name string) *test {
	for _, x := range tests {
		if x.name == name {
			return x
		}
	}
	return nil
}

func windowMB(t *trial) float64       { return float64(t.window()) * float64(t.size) / 1e6 }
func bothMB(t *trial) float64         { return 2 * windowMB(t) }
func windowMessages(t *trial) float64 { return float64(t.window()) }
