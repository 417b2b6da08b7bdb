// Package sim is a network of datagram endpoints in virtual time, for tests. A simulated network
// uses one goroutine, no clock and one seed. The same calls with the same seed give exactly the
// same events. To compare two runs, a test compares their results of Network.Hash.
//
//	Post --> [Filter] --> [line: rate, queue] --> [loss, copies, damage] --> delay --> queue --> Poll
//	 ^                     \__________________ Path ___________________/            |       |
//	 |                                                                              v       |
//	Process.Progress <---- pass: something to poll, Deadline reached, Kick <---- Node <-----+
//
// A Network is a set of Nodes. A Node is a host with one process. A Node opens one
// fabric.Domain at a time, and repeatedly calls Process.Progress of its process. One call of
// Process.Progress is called a pass of the process. A *btl.Module can be the Process of a Node.
// Virtual time does not advance during a call of Process.Progress. The methods Step and RunUntil
// advance it from one event to the next. A simulated hour without traffic takes no real time.
//
// The Paths define the faults of the network: single losses, bursts of losses, duplicates, damaged
// datagrams, replays, a cut path, and a slow line with a short queue. The NodeFaults define the
// faults of a host, which are refused and failing operations and late completions. A Filter decides
// what happens to each datagram, for tests that need a fixed sequence of events. All faults are
// counted, and the counters satisfy the equation below.
//
//	sent + duplicated + junk + replayed + injected =
//	    delivered + drops (Kind.Drop) + InFlight + Queued
//
// Package sim detects errors in the way in which the code under test uses the fabric. The method
// Violations lists these errors, for example buffers that are altered or posted again before their
// completion, sends to removed addresses, and memory that is deregistered during a send.
//
// Each path and each node has a separate random number generator, whose seed is derived from the
// seed of the network. The faults of one path do not depend on the traffic of another path.
//
// One goroutine at a time may use a Network and all its parts. Observe, a Filter, and the
// functions given to At and After may call the methods of the Network. Observe and a Filter must
// not crash or close a domain, because an operation of the domain may be in progress. Observe and a
// Filter can call After(0, ...) instead, with a function that crashes or closes the domain, which
// then runs when the operation has ended.
package sim
