// Package call implements remote procedure calls over a runner.Runner. Methods have numbers or
// names. The client tells the server the deadline of each call, and whether the call was cancelled.
// Package call is an example of a layer on top of the transport, and uses only public API.
//
//	client                                          server
//	Call -- Await ------------------- request -> Inline, or a Handler on its own goroutine
//	  |  ctx is cancelled ----------- cancel --> the handler's context is cancelled
//	  +-- Wake, by the Node's handler <- answer - SendBuffered, Do
//
// A message is one fragment, with a header of 16 bytes and the body. The columns of the table below
// are the offset, the size in bytes, and the meaning of a header field.
//
//	0  8  id of the call, chosen by the client
//	8  4  milliseconds until the deadline of a request, or 0 if there is none
//	12 2  number of the method (0 if it has a name) in a request, or status of an answer
//	14 1  kind (request 1, answer 2, cancel 3)
//	15 1  length of the method's name, which precedes the body of a request, or 0
//
// CallStream sends and receives bodies in chunks, so the bodies can be larger than memory (see
// stream.go).
//
// Fragments can arrive in a different order than they were sent, and small fragments mostly
// overtake large fragments. A message that cancels a call or ends a stream is sent only after the
// peer has acknowledged the request of that call or stream.
//
// The resources of a Node that each peer can use are limited. Config limits the calls (Concurrent,
// Total), the bytes of requests that are running or unacknowledged (RequestBytes), and the bytes of
// answers that the peer has not acknowledged (AnswerBytes). For an open stream, a server stores at
// most 2 MiB of the answer, of which at most 1 MiB is sent but not acknowledged. The part of the
// answer that is unacknowledged at the end of the stream then counts towards AnswerBytes and Total.
// For each peer, at most 1024 answers of handlers with goroutines, and at most 32,768 answers that
// are made without a goroutine, can wait until the transport accepts them.
//
// A Node is safe for concurrent use after its Runner was created. Start creates a Runner for a Node
// that is the only layer of its module. If a Node shares its module with other layers, such as a
// queue.Queue or a conn.Node, pass the Layer of each of them to runner.New.
package call
