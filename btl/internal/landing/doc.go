// Package landing lets a fabric provider write the payloads of large fragments directly to their
// final memory, without a copy by the module. The final memory that the provider uses in one poll
// is called a landing.
//
//	ChunkCame, PutCame --> Expectation (the peer's next chunk)
//	                            |
//	Next (whose memory) --> Poll (tells the provider the landing, and polls)
//	                            |
//	expected chunks (Match, Run) --> Accept, Claim
//	all other packets            --> Restore (copies to the receive buffers)
//
// Three things to know:
//   - The memory for direct receive (landing) is either the place of the next chunks of a message
//     or put, or a buffer for the next message, if its size can be predicted.
//   - Expected chunks stay where the provider has written them, which is the memory for direct
//     receive (landing). The payloads of unexpected packets must be copied back to their receive
//     buffers before the module writes to the landing, begins a fragment, calls a handler or ends
//     an endpoint.
//   - Each peer has its own Expectation. A poll can receive directly from only one peer, which is
//     predicted from the order in which the peers have recently sent chunks.
//
// All types of this package belong to one goroutine.
package landing
