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
//   - A landing (memory for direct receive) begins directly behind the latest chunk of a message
//     or put, or is the buffer for the next fragment of the usual size.
//   - Only the expected chunks stay in the landing (memory for direct receive) where the provider
//     has written them. Until the payloads of all other packets of the poll have been copied
//     back, nothing may write to the landing (memory for direct receive), begin a fragment, call
//     a handler or end an endpoint.
//   - Each peer has its own Expectation, and the single landing (memory for direct receive) of a
//     poll is for the peer whose chunks have lately followed those of the latest sender.
//
// All types of this package belong to one goroutine.
package landing
