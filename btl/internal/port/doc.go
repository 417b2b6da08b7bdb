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
// Start reading at Open, then Channel.Put and Channel.Post.
//
// A Port belongs to the goroutine of its owner.
package port
