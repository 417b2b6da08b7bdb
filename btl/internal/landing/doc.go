// Package landing has a provider write the payloads of large fragments to the memory where the
// payloads belong, without a copy by the module. The target memory of one poll is called a landing.
//
//	ChunkCame, PutCame --> Expectation: the peer's next chunk
//	                            |
//	Next: whose memory --> Poll: the provider is told the landing, and polled
//	                            |
//	Match, Run: the expected chunks --> Accept, Claim: they stay where they are
//	others                          --> Restore: copied back into the receive buffers
//
// Three things to know:
//   - The memory of a landing begins behind the latest chunk of a message or put, or is the buffer
//     that the next fragment of the usual size will get.
//   - Only the expected chunks are accepted where they are. Until the payloads of all other packets
//     of a poll have been copied back, nothing may write to the landing, begin a fragment, call a
//     handler or end an endpoint.
//   - Each peer has an Expectation of its own, but a poll has only one landing. The landing belongs
//     to the peer whose chunks have lately followed the chunks of the latest sender.
//
// Start reading at Plan.Poll.
//
// All types of this package belong to the goroutine of their owner.
package landing
