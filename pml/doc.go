// Package pml is the point-to-point layer of an MPI-like library over btl: sends and receives that
// are matched by a 64-bit tag with a mask, from one peer or from any, in the order of sending; and
// active messages, which are given to the handler of their id, in the same order.
//
//	Send                                                               Recv
//	  |  small, and the peer has room       eager: envelope and bytes    |
//	  +---------------------------------------------------------------->-+-> matched: copied
//	  |                                                                  +-> unexpected: kept
//	  |  else                               announce: envelope alone     |
//	  +---------------------------------------------------------------->-+-> matched, now or later
//	  |                                     clear: where to              |
//	  +-<---------------------------------------------------------------+
//	  |                                     puts, straight into the receiver's memory
//	  +=================================================================>+
//	  |                                     fin, the last one's notice   |
//	  +================================================================>=+-> all in place: done
//	  |                                     credit, and the transport's  |
//	done <-------------------------------------------- acknowledgement --+
//
// A message of this layer is a fragment of btl, with a head of 16 bytes, little-endian:
//
//	0   1   kind
//	1   1   flags: synchronous 1, ready 2
//	2   2   of an active message its id, else 0
//	4   4   number: of envelopes, counted from 0 to each peer, modulo 2^32
//	8   8   tag
//	16  8   of announce, and of eager if it is synchronous: the send's id
//	24  8   of announce: bytes of the message
//
// An active message has the kind active or active announce instead, which are as eager and announce
// but for the place of the tag: there is how many bytes of header are behind the head, before the
// message.
//
// Fragments overtake each other, so envelopes are put back into the order of their numbers before
// they are matched; bulk data may overtake. The others answer by ids, and have 16 bytes more:
//
//	kind        number   at 8                      at 16             at 24
//	clear       status   the send's id             the receive's id  the region, and its size at 32
//	fin         status   the receive's id
//	matched     0        the send's id
//	credit      taken    bytes taken, in all
//
// What a peer has sent and nobody has received is bounded: EnvelopesMax of them, and
// UnexpectedBytes of what came with them, beyond which messages are only announced. Receivers tell
// how much they have taken; a sender whose peer has no room keeps its messages, in order. Both
// sides must have the same Config. Messages of groups of tags that are refused (Refuse) count as
// received. An active message is received when its handler has returned, or when it is dropped or
// received if that is later; what is announced counts the bytes of its header.
//
// A Layer belongs to one goroutine, which calls Progress; no lock, no goroutine, no clock, so it
// runs in a simulator as it runs in production.
package pml
