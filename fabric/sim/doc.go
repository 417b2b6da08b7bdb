// Package sim is a network of datagram endpoints in virtual time, for tests. A simulated network
// uses one goroutine, no clock and one seed. The same calls with the same seed give the same
// events, bit for bit, and Hash allows to compare two runs.
//
//	Post --> [Filter] --> [line: rate, queue] --> [loss, copies, damage] --> delay --> queue --> Poll
//	 ^                     \__________________ Path ___________________/            |       |
//	 |                                                                              v       |
//	Process.Progress <---- pass: something to poll, Deadline reached, Kick <---- Node <-----+
//
// A Network is a set of Nodes. A Node is a host with one process. A Node opens one
// fabric.Domain at a time, and repeatedly calls Process.Progress of its process. A pass of
// a process is one call of Process.Progress. A *btl.Module can be the Process of a Node.
// Virtual time does not advance during a call of Process.Progress, and advances from one
// event to the next in Step and RunUntil. A simulated hour without traffic takes no real
// time.
//
// The Paths define the faults of the network, which are loss, bursts of loss, copies, damage,
// replays, a cut, and a slow line with a short queue. The NodeFaults define the faults of a host,
// which are refused and failing operations and late completions. A Filter decides on single
// datagrams, for tests with a fixed sequence of events. All faults are counted, and the counters
// satisfy the equation below.
//
//	sent + duplicated + junk + replayed + injected =
//	    delivered + drops (Kind.Drop) + InFlight + Queued
//
// Package sim also detects errors of the code under test. Violations lists errors of the code
// under test, for example buffers altered or posted before their completion, sends to removed
// addresses, and memory deregistered during a send.
//
// Each path and each node has its own random number generator, which is derived from the
// seed. The faults of one path do not depend on the traffic of another path.
//
// One goroutine at a time may use a Network and all its parts. Observe, a Filter, and the
// functions given to At and After may call the methods of the Network. Observe and a Filter
// must not crash or close a domain directly, because an operation of the domain may be in
// progress. Observe and a Filter can call After(0, ...) to crash or close a domain directly
// after the operation in progress.
package sim
