// Package queue is receiver-driven messaging over a runner.Runner: a bounded queue for each peer. A
// full queue stops that peer's Send, and no other peer's. Unlike a handler, which must not block, a
// receiver that takes from a Queue may be arbitrarily slow. The package uses only public API.
//
//	Send -- hello, once -------------------->|
//	  |<------------------------------ limit |
//	  +-- data, up to the limit ------------>| the peer's queue
//	  | (waits)                              |    Take
//	  |<------------------------------ limit | when a quarter of the window was taken
//	  +-- hello, if it needs more yet ------>|
//	  |<------------------------------ limit | when all was taken
//
// A message is a head of 8 bytes, little-endian, in a fragment of its own:
//
//	0  1  kind: data 1, hello 2, limit 3
//	1  7  0
//	8     of data the message; of limit how much may have been sent since the beginning (8 bytes),
//	      and how much of that a queue holds (8 bytes); of a hello nothing, or, of one who waits with
//	      a message of more than three quarters of the window, how much was sent (8 bytes)
//
// A message costs its length plus overheadBytes. Limits only grow, so they may overtake each other;
// messages may too, as the transport does not order them. A conforming peer waits in its own Send.
// If a peer exceeds its limit, by sending on the tag in other ways, its endpoint is ended and the
// message dropped. Malformed messages are dropped silently. So one peer uses at most Config.Bytes
// here, all ended peers together at most Config.GoneBytes, and no handler blocks. Against peers
// that reconnect again and again, take the messages of ended endpoints before they reach GoneBytes,
// or refuse such peers by btl.Module.Admit.
//
// Any goroutine may use a Queue once its Runner exists, which Start creates. Layer is for a module
// with several of Queue, call.Node and conn.Node.
package queue
