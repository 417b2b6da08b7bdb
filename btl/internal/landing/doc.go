// Package landing lets a fabric provider write the payloads of large fragments directly to their
// final memory, without a copy by the module (direct receive). The final memory that the provider
// uses in one poll is called a landing.
//
//	ChunkCame, PutCame --> Expectation (the peer's next chunk)
//	                            |
//	Next (whose memory) --> Poll (tells the provider the landing, and polls)
//	                            |
//	expected chunks (Match, Run) --> Accept, Claim
//	all other packets            --> Restore (copies to the receive buffers)
//
// Three things to know:
//   - The memory for direct receive (landing) is usually the memory to which the next chunks of a
//     message or put belong. If the size of the peer's next message can be predicted from the sizes
//     of its previous messages, the landing (the memory for direct receive) can be a buffer for
//     this message.
//   - Expected chunks stay in the memory for direct receive (landing), where the provider has
//     written them. The payloads of unexpected packets must be copied back to their receive buffers
//     before the module writes to the landing (the memory for direct receive), begins a fragment,
//     calls a handler or ends an endpoint.
//   - Each peer has its own Expectation. In each poll, direct receive is possible for only one
//     peer, which the module predicts from the order in which chunks of the peers have recently
//     arrived.
//
// Only one goroutine may use the types of package landing.
package landing
