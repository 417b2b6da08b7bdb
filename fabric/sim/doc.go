// Package sim is a network of datagram endpoints in virtual time, for tests. A simulated network
// uses one goroutine, no real clock, and one seed for all random numbers. The same calls with the
// same seed give exactly the same events. To check that two runs had the same events, a test
// compares the results of Network.Hash.
//
//	Post --> [Filter] --> [line, rate, queue] --> [loss, copies, damage] --> delay --> queue --> Poll
//	 ^                     \__________________ Path ___________________/            |       |
//	 |                                                                              v       |
//	Process.Progress <---- pass, something to poll, Deadline reached, Kick <---- Node <-----+
//
// A Network is a set of Nodes. A Node is a host with one process. A Node has at most one open
// fabric.Domain, and repeatedly calls Process.Progress of its process. One call of Process.Progress
// is called a pass. A *btl.Module can be the Process of a Node. Virtual time does not advance
// during a call of Process.Progress. The methods Step and RunUntil advance the virtual time from
// one event to the next. A simulated hour without traffic takes no real time.
//
// The Paths define the faults of the network. A Path can lose, duplicate, damage and replay
// datagrams, can lose all datagrams (Cut), and can have a slow line with a short queue. The
// NodeFaults make operations of a host fail or return ErrAgain, and delay completions. In tests
// that need a fixed sequence of events, a Filter decides whether each datagram is delivered,
// delayed, copied or dropped. The network counts all faults, and the counters of the network
// satisfy the following equation.
//
//	sent + duplicated + junk + replayed + injected ==
//	    delivered + drops (Kind.Drop) + InFlight + Queued
//
// Package sim detects incorrect uses of the fabric interface by the code under test. The method
// Violations lists the incorrect uses of the fabric interface, for example buffers that are altered
// or posted again before their completion, sends to removed addresses, and memory that is
// deregistered during a send.
//
// Each path and each node has a separate random number generator, whose seed is derived from the
// seed of the network. The faults of one path do not depend on the traffic of another path.
//
// One goroutine at a time may use a Network and all its parts. The callbacks Observe and Filter,
// and the functions given to At and After, may call the methods of the Network. The callbacks
// Observe and Filter must not crash a node or close a domain, because the network might call them
// during an operation of the domain. Observe and a Filter can call After(0, f) with a function f
// that crashes the node or closes the domain, because the network calls f only when the operation
// in progress has ended.
package sim
