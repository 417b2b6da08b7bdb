// Package queue is messages that wait for their receiver over a runner.Runner: a bounded queue for
// each peer, whose fullness stops that peer's Send and nobody else's. A handler must not block; who
// takes from a Queue may be as slow as it likes. All that it uses is public.
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
// What counts of a message is its length and overheadBytes. A limit only grows, so it does not
// matter which of two overtakes the other; the messages do that, too: the transport has no order.
// A peer that keeps to that waits in its own Send. One that does not, because it sends on the tag
// by other means, is not waited for either: with the first message beyond its limit its endpoint
// is ended, and that message dropped; what is no message of ours is dropped without a word. So a
// peer has Config.Bytes here at most, whatever it does, all that have ended Config.GoneBytes
// together, and nobody's handler blocks. Who must not be put out by peers that come again and
// again takes what was sent by those that end before they are GoneBytes, or has btl.Module.Admit
// turn them away.
//
// All may be used by any goroutine once the Runner is there: Start makes one. Layer is for a module
// that has several of Queue, call.Node and conn.Node.
package queue
