// Package path runs the path MTU searches to an owner's peers, measures round trips, and
// decides whether granting credits beyond the receive buffer does harm.
//
//	Begin, Pong, Lost, Delivered,  +-------+   Host: send a Ping, use a size, end a narrow path
//	Refused, Expire -------------> | Paths |--> pmtu.Search, one for each endpoint
//	                               +-------+
//	Wants, Tend, Pong -----------> Trips: round trips by Pings, and overruns of the buffer
//
// Three things to know:
//   - A Search (package pmtu) decides which sizes to probe. Paths runs the timer of the Search,
//     and sends the probes through the Host.
//   - A path is narrow if all packets of the base size are lost for as long as a peer may be
//     silent, although the peer answers smaller packets.
//   - A measured round trip counts only after several answers, because the first answers may wait
//     in queues even on a short path.
//
// Start reading at Paths.
//
// All types of this package belong to the goroutine of their owner.
package path
