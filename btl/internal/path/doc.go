// Package path runs the searches for the largest datagrams that the paths to an owner's peers
// carry, answers how far peers are, and decides when credits beyond the receive buffer do harm.
//
//	Begin, Pong, Lost, Delivered,  +-------+   Host: send a Ping, use a size, end a narrow path
//	Refused, Expire -------------> | Paths |--> pmtu.Search, one for each endpoint
//	                               +-------+
//	Wants, Tend, Pong -----------> Trips: round trips by Pings, and overruns of the buffer
//
// Three things to know:
//   - A Search (package pmtu) says what to try; Paths has its timer and does it by the Host.
//   - A path is narrow when the base size is lost for as long as a peer may be silent, and the peer
//     answers nevertheless.
//   - A round trip counts after several answers: the first ones wait in queues on a short path too.
//
// Start reading at Paths.
//
// What is here belongs to the goroutine of its owner.
package path
