// Package call is request and response over a runner.Runner: methods with numbers or names,
// propagated deadlines, cancellation, errors as values. It is deliberately small, as it is also the
// model of a layer above the transport: it uses only public API.
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
// Bodies that may be larger than memory go in chunks, by CallStream: see stream.go.
//
// Fragments may overtake each other, and small ones mostly overtake large ones. A cancel that
// arrives before its request would have no effect. So it is sent only after the request is
// acknowledged, and so is the end of a stream whose opening was abandoned.
//
// All resources that a peer can use in a Node are bounded: calls (Concurrent, Total), the bytes of
// their requests (RequestBytes), unaccepted answers (AnswerBytes; 1024 of handlers on goroutines,
// 32 768 others).
//
// Any goroutine may use a Node once its Runner exists, which Start creates. Layer is for a module
// with several of Node, queue.Queue and conn.Node.
package call
