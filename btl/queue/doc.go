// Package queue implements messaging over a runner.Runner with a bounded queue of received messages
// for each peer. If the receiver's queue for one sender is full, only this sender's calls of Send
// wait. A program may call Take at any speed, whereas a message handler must not block. The package
// uses only public API.
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
//     total of bytes that the peer may send on this connection, earlier bytes included. The second
//     number of a limit message is the maximum number of bytes that the queue holds.
//   - A hello is empty, or contains the number of bytes sent so far. A hello with a number means
//     that a message of more than three quarters of the window waits at the sender.
//
// A message counts as its length plus overheadBytes. Messages may arrive out of order. A limit
// message that arrives late does no harm, because limits on bytes only grow. If a peer exceeds its
// limit on bytes, the Queue drops the message and ends the peer's endpoint. Malformed messages are
// dropped silently.
//
// The peer's limit is not the only limit on the memory that the sender uses. The messages to one
// peer that it has not acknowledged use at most Config.Bytes of the sender, or are one larger
// message.
//
// The received messages of one peer use at most Config.Bytes, those of all connected peers use at
// most Config.TotalBytes, and those of all ended endpoints use at most Config.GoneBytes. A peer
// that reconnects repeatedly may fill GoneBytes, so take the messages of ended endpoints in time,
// or refuse such peers with btl.Module.Admit.
//
// Any goroutine may use a Queue after its Runner was created. Start creates a Runner only for the
// Queue. If several layers (Queue, call.Node, conn.Node) share a module, pass the Layer of each of
// them to runner.New.
package queue
