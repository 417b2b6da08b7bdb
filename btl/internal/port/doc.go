// Package port opens one Domain of a fabric for a module. A Port manages the packet buffers, the
// command channel, the data channel, and the addresses of peers.
//
//	+------------------------- Domain --------------------------+
//	| arena: send | control | receive cmd | receive data | spare |
//	|            command channel   data channel                  |
//	|              addresses of peers                            |
//	+------------------------------------------------------------+
//
// Three things to know:
//   - A Port handles buffers, channels and addresses. A Port knows no peers, no sequence numbers
//     and no clock.
//   - A Port calls no other package. Post and SendDone put the buffers that the fabric has
//     released on a list. The owner of the Port takes that list with Done, and the rejected sends
//     with Refused.
//   - The owner frees its send buffers. The Port frees a control buffer as soon as the fabric has
//     released that buffer.
//
// All packets pass through a Port. Every outgoing packet leaves through Put, Next or Inject of a
// Channel, with its header already written. Every incoming packet arrives through Poll, with its
// header not yet parsed. Encryption belongs into package port, where a packet can be sealed
// before Post, in a buffer of the arena, and opened after Poll. Encryption needs a copy of each
// payload that the fabric gathers from, or places into, the caller's memory.
//
// Start reading at Open, then Channel.Put and Channel.Post.
//
// A Port belongs to the goroutine of its owner.
package port
