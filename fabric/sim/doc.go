// Package sim is a network of datagram endpoints in virtual time, for tests. A network uses one
// goroutine, no clock and one seed. The same calls with the same seed give the same events, bit for
// bit, and Hash proves the equality. A failed run of a test can therefore be repeated with the same
// seed.
//
//	Post --> [Filter] --> [line: rate, queue] --> [loss, copies, damage] --> delay --> queue --> Poll
//	 ^                     \__________________ Path ___________________/            |       |
//	 |                                                                              v       |
//	Process.Progress <---- pass: something to poll, Deadline reached, Kick <---- Node <-----+
//
// A Network is a set of Nodes. A Node is a host with one process. The Node opens one fabric.Domain
// at a time, on which the process works, and runs the process in passes. A pass is one call of
// Process.Progress. A *btl.Module is a Process. Time stands still during a pass, and moves from one
// event to the next in Step and RunUntil. A simulated hour without traffic therefore costs nothing.
//
// The Paths define the faults of the network, which are loss, bursts, copies, damage, replays, a
// cut, and a slow line with a short queue. The NodeFaults define the faults of a host, which are
// refused and failing operations and late completions. A Filter decides on single datagrams in a
// test with a script. All faults are counted, and each datagram that enters the network is
// accounted for:
//
//	sent + duplicated + junk + replayed + injected =
//	    delivered + drops (Kind.Drop) + InFlight + Queued
//
// The package also checks its user. Violations lists buffers altered or posted before their
// completion, sends to removed addresses, and memory deregistered while a send still needs the
// memory.
//
// Random numbers come from one generator for each path and each node, all derived from the seed.
// The faults of one path therefore do not depend on the number of datagrams on another path.
//
// One goroutine at a time may use a Network and all its parts. Observe, a Filter, and the functions
// given to At and After may call the methods of the Network. Observe and a Filter must not crash or
// close a domain directly, because an operation of the domain may be in progress. A call of
// After(0, ...) postpones the crash or the close.
package sim
