// Package queue implements messaging over a runner.Runner with a bounded queue of received
// messages for each peer. If the queue for one peer is full, only the Sends of this peer
// wait. The receiver takes messages from a Queue at any speed, unlike a message handler.
// The package uses only public API.
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
//   - A message of kind limit contains two numbers. The first number is the total of bytes that the
//     peer may send on this connection, earlier bytes included. The second number is the maximum
//     number of bytes that the queue holds.
//   - A hello is empty, or contains the number of bytes sent so far if a message of more than
//     three quarters of the window waits.
//
// A message counts as its length plus overheadBytes. Messages may arrive in another order than
// sent, and a limit on bytes that arrives late does no harm, because such limits only grow. If a
// peer exceeds its limit on bytes, which Send never does, the message is dropped and the peer's
// endpoint is ended. Malformed messages are dropped silently.
//
// The received messages of one peer use at most Config.Bytes, those of all connected peers use at
// most Config.TotalBytes, and those of all ended endpoints use at most Config.GoneBytes. A peer
// that reconnects repeatedly may fill GoneBytes, so take the messages of ended endpoints in time,
// or refuse such peers with btl.Module.Admit.
//
// Any goroutine may use a Queue after its Runner was created. Start creates a Runner for the Queue
// alone. If several layers (Queue, call.Node, conn.Node) share a module, pass the Layer of each of
// them to runner.New.
package queue
