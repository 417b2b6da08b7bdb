// Package queue implements receiver-driven messaging over a runner.Runner, with a bounded queue
// for each peer. A full queue blocks only the Send of its own peer. A receiver that takes
// messages from a Queue may be arbitrarily slow, unlike a handler. The package uses only public
// API.
//
//	Send -- hello, once -------------------->|
//	  |<------------------------------ limit |
//	  +-- data, up to the limit ------------>| the peer's queue
//	  | (waits)                              |    Take
//	  |<------------------------------ limit | when a quarter of the window was taken
//	  +-- hello, if it needs more yet ------>|
//	  |<------------------------------ limit | when all was taken
//
// A message is one fragment, and begins with a header of 8 bytes, little-endian:
//
//	0  1  kind: data 1, hello 2, limit 3
//	1  7  0
//	8     of data the message; of limit how much may have been sent since the beginning (8 bytes),
//	      and how much of that a queue holds (8 bytes); of a hello nothing, or, of one who waits with
//	      a message of more than three quarters of the window, how much was sent (8 bytes)
//
// A message counts as its length plus overheadBytes. Messages may overtake each other, because
// the transport does not order them. Limits may overtake each other too, which does no harm,
// because limits only grow. A conforming peer waits in its own Send. If a peer sends on the tag
// in another way and exceeds its limit, the message is dropped and the peer's endpoint is ended.
// Malformed messages are dropped silently.
//
// The received messages of one peer therefore use at most Config.Bytes, those of all ended
// endpoints at most Config.GoneBytes, and no handler blocks. A peer may reconnect again and
// again and fill GoneBytes. To prevent lost messages, take the messages of ended endpoints in
// time, or refuse such peers by btl.Module.Admit.
//
// Any goroutine may use a Queue once its Runner exists. Start creates the Runner. If a module
// has several layers (Queue, call.Node, conn.Node), use Layer instead of Start.
package queue
