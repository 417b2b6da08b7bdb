// Package call implements remote procedure calls over a runner.Runner. Methods have numbers or
// names, and deadlines and cancellation reach the server. The package is also an example of a
// layer on top of the transport, and uses only public API.
//
//	client                                          server
//	Call --- Await: note the id, send -- request -> inline, on the goroutine that drives,
//	  |                                             or a goroutine each, Config.Concurrent a peer
//	  |  ctx ends: ---------------------- cancel -> its context ends
//	  +-- woken by the Node's handler <-- answer -- SendBuffered, Do
//
// A message is a head of 16 bytes and the body, in a fragment of its own:
//
//	0  8  id of the call, chosen by the client
//	8  4  of a request: milliseconds that are left to it, 0 for no limit
//	12 2  of a request: the method's number, or 0 if it has a name; of an answer: its status
//	14 1  kind: request 1, answer 2, cancel 3
//	15 1  of a request: the length of the method's name, which stands before the body; else 0
//
// CallStream sends and receives bodies that may be larger than memory, in chunks: see
// stream.go.
//
// Fragments may overtake each other; small fragments usually overtake large ones. A cancel that
// arrives before its request would have no effect, so a cancel is sent only after the request is
// acknowledged. The message that ends a stream is also sent only after the message that opens the
// stream is acknowledged.
//
// All resources that a peer can use in a Node are bounded. Config bounds the calls (Concurrent,
// Total), the bytes of the requests (RequestBytes), and the answers that the peer has not
// accepted (AnswerBytes). Answers that a peer has not accepted are also limited in number: 1024
// answers of handlers on goroutines, and 32 768 other answers.
//
// Any goroutine may use a Node once its Runner exists. Start creates the Runner. If a module
// has several layers (Node, queue.Queue, conn.Node), use Layer instead of Start.
package call
