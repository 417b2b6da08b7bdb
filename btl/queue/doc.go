// Package queue implements messaging over a runner.Runner with a bounded queue of received messages
// for each peer. If the receiver's queue for one sender is full, only this sender's calls of Send
// wait. A program can delay its calls of Take, whereas a message handler must not block. The
// package uses only public API.
//
//	Send -- hello, once -------------------->|
//	  |<------------------------------ limit |
//	  +-- data, up to the limit ------------>| the peer's queue
//	  | (waits)                              |    Take
//	  |<------------------------------ limit | when a quarter of the window was taken
//	  +-- hello, if it needs more yet ------>|
//	  |<------------------------------ limit | when all was taken
//
// Each message is one fragment, and begins with a header of 8 bytes. The first byte of the header
// is the kind (data 1, hello 2, limit 3), and the other bytes are 0. The header is followed by one
// of the following contents, with little-endian numbers of 8 bytes:
//   - A data message contains the message of Send.
//   - A message of kind limit contains two numbers. The first number of a limit message is the
//     total number of bytes that the peer is allowed to send on this connection, including the
//     bytes already sent. The second number of a limit message is the maximum number of bytes in
//     the queue (the window).
//   - A hello is empty, or contains the total number of bytes sent on this connection. A hello with
//     a number means that a message of more than three quarters of the window waits at the sender
//     of the hello.
//
// A message counts as its length plus overheadBytes. Messages can arrive out of order. A sender
// uses the largest limit that it has received, so a limit message that arrives late has no effect.
// If a peer exceeds its limit on bytes, the Queue drops the message and ends the peer's endpoint.
// Malformed messages are dropped silently.
//
// The memory that a sender uses is limited by the Config of the sender, and not by that of the
// receiver. The sender's Config.Bytes limits the size of the unacknowledged messages to one peer,
// but a single message that is larger can be sent alone. The sender's Config.TotalBytes limits the
// size of the unacknowledged messages to all peers. Because hosts share TotalBytes, a message to a
// host without unacknowledged messages never waits for TotalBytes, even if the peers of other hosts
// acknowledge nothing.
//
// The received messages of one peer use at most Config.Bytes, and the received messages of all
// connected peers use at most Config.TotalBytes. The received messages of all ended endpoints use
// at most Config.GoneBytes, beyond which the Queue drops messages. A peer that reconnects
// repeatedly can make the Queue drop messages of ended endpoints. A program that must not lose
// messages should call Take in time, or refuse repeated connections with btl.Module.Admit.
//
// A Queue is safe for concurrent use after its Runner was created. Start creates a Runner for a
// Queue that is the only layer of its module. If several layers (Queue, call.Node, conn.Node) share
// a module, pass the Layer of each of them to runner.New.
package queue
