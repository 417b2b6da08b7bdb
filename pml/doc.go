// Package pml is the point-to-point layer of an MPI-like library over btl: sends and receives that
// are matched by a 64-bit tag with a mask, from one peer or from any, in the order of sending. It
// also has active messages, which are passed to the handler of their id in the same order.
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
// A message of this layer is a btl fragment with a header of 16 bytes, in little-endian order:
//
//	0   1   kind
//	1   1   flags: synchronous 1, ready 2; of clear: in packets 4
//	2   2   of an active message its id, else 0
//	4   4   number: of envelopes, counted from 0 to each peer, modulo 2^32
//	8   8   tag
//	16  8   of announce, and of eager if it is synchronous: the send's id
//	24  8   of announce: bytes of the message
//
// Bytes that do not lie in one piece, at the sender or at the receiver, go in packets instead of
// puts (packets.go):
//
//	|                                     clear: in packets            |
//	+-<---------------------------------------------------------------+
//	|                                     data: a packet of bytes      |
//	+=================================================================>+-> copied to its place
//	|                                     data: the last one           |
//	+=================================================================>+-> all in place: done
//
// An active message has the kind active or active announce. These correspond to eager and announce,
// except that the field of the tag has the length of the active header, which lies between the head
// and the message.
//
// Fragments may arrive out of order, so envelopes are sorted by their numbers before they are
// matched. Bulk data need not be in order. The other kinds refer to requests by ids, and have 16
// bytes more:
//
//	kind        number   at 8                      at 16             at 24
//	clear       status   the send's id             the receive's id  the region, and its size at 32
//	fin         status   the receive's id
//	data        0        the receive's id  where in the message  bytes that were put, not sent so
//	matched     0        the send's id
//	credit      taken    bytes taken, in all
//
// The unreceived messages of a peer are bounded: at most EnvelopesMax envelopes, with at most
// UnexpectedBytes of eager data. Beyond that, messages are only announced. Receivers report how
// much they have received. A sender whose peer has no room queues its messages in order. Both sides
// must have the same Config. Messages of refused groups of tags (Refuse) count as received. An
// active message counts as received when its handler has returned, or when the message is dropped
// or received, whichever is later. An announced active message counts the bytes of its header.
//
// A Layer belongs to one goroutine, which calls Progress. It has no lock, no goroutine and no
// clock, so it runs in a simulator exactly as in production.
package pml
