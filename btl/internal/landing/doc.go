// Package landing lets a fabric provider write the payloads of large fragments directly to their
// destination memory, without a copy by the module (direct receive). The destination memory that
// the provider may use in one poll is called a landing.
//
//	ChunkCame, PutCame --> Expectation (the peer's next chunk)
//	                            |
//	Next (whose memory) --> Poll (tells the provider the landing, and polls)
//	                            |
//	expected chunks (Match, Run) --> Accept, Claim
//	all other packets            --> Restore (copies to the receive buffers)
//
// Three things to know:
//   - The memory for direct receive (landing) is usually the destination of the next chunks of a
//     message or put. If the size of the peer's next message can be predicted from the sizes of the
//     peer's previous messages, the landing (the memory for direct receive) can be a buffer for the
//     next message.
//   - Expected chunks stay in the memory for direct receive (landing), where the provider has
//     written them. The payloads of unexpected packets must be copied back to their receive buffers
//     before the module writes to the landing (the memory for direct receive), begins a fragment,
//     calls a handler or ends an endpoint.
//   - Each peer has its own Expectation. In each poll, direct receive is possible for only one
//     peer, which the module predicts from the order in which chunks of the peers have recently
//     arrived.
//
// The types of package landing are not safe for concurrent use.
package landing
