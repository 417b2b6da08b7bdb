// Package path runs the path MTU searches to a module's peers, measures round trips, and detects
// when credits beyond the receive buffer cause overruns.
//
//	Begin, Pong, Lost, Delivered,  +-------+   Host (send a Ping, use a size, end a narrow path)
//	Refused, Expire -------------> | Paths |--> pmtu.Search, one for each endpoint
//	                               +-------+
//	MayMeasure, Measure, Measured -----> Path.trip (round trips by Pings)
//	Look ------------------------------> Overruns (overruns of the receive buffer)
//
// Three things to know:
//   - A Search (package pmtu) decides which sizes to probe, and Paths runs the timer of the Search
//     and sends the probes through the Host.
//   - A path is narrow if all packets of the base size are lost for as long as a live peer may be
//     silent, although the peer answers smaller packets.
//   - A measured round trip is used only after several answers, because the first answers may be
//     delayed by queues even on a short path.
//
// Only one goroutine may use the values of package path.
package path
