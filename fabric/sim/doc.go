// Package sim is a network of datagram endpoints in virtual time, for tests: one goroutine, no
// clock, one seed. The same calls with the same seed give the same events, bit for bit, which Hash
// proves; a run that failed can be looked at again as often as one likes.
//
//	Post --> [Filter] --> [line: rate, queue] --> [loss, copies, damage] --> delay --> queue --> Poll
//	 ^                     \__________________ Path ___________________/            |       |
//	 |                                                                              v       |
//	Process.Progress <---- pass: something to poll, Deadline reached, Kick <---- Node <-----+
//
// A Network is a set of Nodes. A Node is a host with one process: it opens one fabric.Domain at a
// time, on which the process works, and gives the process passes. *btl.Module is such a Process.
// Time stands still during a pass; it moves from one event to the next in Step and RunUntil, so a
// simulated hour without traffic costs nothing.
//
// The network is as bad as its Paths say (loss, bursts, copies, damage, replays, a cut, a slow line
// with a short queue), each host as bad as its NodeFaults say (refused and failing operations, late
// completions), and a Filter decides on single datagrams where a test follows a script. All of that
// is counted, each datagram that enters is accounted for:
//
//	sent + duplicated + junk + replayed + injected =
//	    delivered + drops (Kind.Drop) + InFlight + Queued
//
// The package also checks its user: Violations lists buffers altered or posted before their
// completion, sends to removed addresses, and memory deregistered while a send still needs it.
//
// Random numbers come from one generator for each path and each node, all derived from the seed, so
// that what happens on one path does not depend on how many datagrams another one carried.
//
// One goroutine at a time may use a Network and all that belongs to it. Observe, a Filter, and the
// functions given to At and After may call its methods; from Observe and a Filter, a Crash or Close
// of a domain must be put off with After(0, ...), because an operation of that domain may be under
// way.
package sim
