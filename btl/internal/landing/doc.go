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
//   - The memory for direct receive (landing) begins directly behind the latest chunk of a message
//     or put, or is the buffer for the next fragment of the usual size.
//   - Only the expected chunks stay in the memory for direct receive (landing) where the provider
//     has written them. Before anything writes to the landing, begins a fragment, calls a handler
//     or ends an endpoint, the payloads of all other packets of the poll must be copied back to
//     their receive buffers.
//   - Each peer has its own Expectation. A poll has memory for direct receive from only one peer,
//     which is the peer whose chunks have lately followed the chunks of the latest sender.
//
// All types of this package belong to one goroutine.
package landing
