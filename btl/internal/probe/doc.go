// Package probe runs the path MTU searches to a module's peers, and measures round trips. The type
// Overruns detects overruns of the receive buffer, which occur if peers have more credits than the
// buffer has room for.
//
//	Begin, Pong, Lost, Delivered,  +-------+   Host (send a Ping, use a size, end a narrow path)
//	Refused, Expire -------------> | Paths |--> pmtu.Search, one for each endpoint
//	                               +-------+
//	MayMeasure, Measure, Measured -----> Path.trip (round trips by Pings)
//	Look ------------------------------> Overruns (overruns of the receive buffer)
//
// Three things to know:
//   - A Search (package pmtu) decides which sizes to probe. Paths runs the timer of the Search, and
//     sends the probes through the Host.
//   - A path counts as narrow if, for as long as a live peer is allowed to be silent, all packets
//     of the base size (BASE_PLPMTU of RFC 8899) are lost although the peer answers smaller
//     packets.
//   - A measured round trip is used only after several answers, because queues can delay the first
//     answers even on a short path.
//
// The types of package probe are not safe for concurrent use.
package probe
