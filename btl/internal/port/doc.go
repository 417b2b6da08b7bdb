// Package port opens one Domain of a fabric for a module: the memory of its packet buffers, the
// command channel and the data channel, and the addresses of its peers.
//
//	+------------------------- Domain --------------------------+
//	| arena: send | control | receive cmd | receive data | spare |
//	|            command channel   data channel                  |
//	|              addresses of peers                            |
//	+------------------------------------------------------------+
//
// Three things to know:
//   - A Port knows buffers, channels and addresses. It knows no peer, no sequence number and no
//     clock.
//   - A Port calls nobody. Post and SendDone put the buffers that the fabric has let go of on a
//     list; the owner of the Port takes that list with Done, and the sends that the fabric has
//     refused with Refused.
//   - A send buffer belongs to the owner, who frees it. A control buffer belongs to the Port, which
//     frees it as soon as the fabric has let go of it.
//
// A Port is the one gate of packets. Each leaves by Put, Next or Inject of a Channel with its
// header written, and each arrives by Poll with its header unread. Encryption of packets belongs
// here: a packet is sealed before Post, in a buffer of the arena, and opened after Poll. A payload
// that the fabric gathers, or that lands in the caller's memory, has to be copied for that.
//
// Start reading at Open, then Channel.Put and Channel.Post.
//
// A Port belongs to the goroutine of its owner.
package port
