// Package pml is the point-to-point layer of an MPI-like library over package btl. A receive
// matches a message by a 64-bit tag with a mask, from one peer or from any peer. Messages from one
// peer are matched in the order of sending. The package has active messages, which need no receive,
// and which Progress passes to the handlers of their ids in the order of sending.
//
//	Send                                                               Recv
//	  |  small, and the peer has room       eager, envelope and bytes    |
//	  +---------------------------------------------------------------->-+-> matched, copied
//	  |                                                                  +-> unexpected, kept
//	  |  else                               announce, envelope alone     |
//	  +---------------------------------------------------------------->-+-> matched, now or later
//	  |                                     clear, where to              |
//	  +-<---------------------------------------------------------------+
//	  |                                     puts, straight into the receiver's memory
//	  +=================================================================>+
//	  |                                     fin, the last one's notice   |
//	  +================================================================>=+-> all in place, done
//	  |                                     credit, and the transport's  |
//	done <-------------------------------------------- acknowledgement --+
//
// A message of package pml is a btl fragment that begins with a header of at least 16 bytes, in
// little-endian order. The columns of the table below are the offset, the size in bytes, and the
// meaning of a field.
//
//	0   1   kind
//	1   1   flags (1 synchronous, 2 ready, 4 data in packets)
//	2   2   id of an active message, or 0
//	4   4   number of the envelope, counted from 0 per peer modulo 2^32
//	8   8   tag
//	16  8   id of the send (in announce, and in synchronous eager)
//	24  8   size of the message (in announce)
//
// If the memory of the sender or the receiver is not contiguous, the data is sent in packets
// instead of puts (packets.go).
//
//	|                                     clear, in packets            |
//	+-<---------------------------------------------------------------+
//	|                                     data, a packet of bytes      |
//	+=================================================================>+-> copied to its place
//	|                                     data, the last one           |
//	+=================================================================>+-> all in place, done
//
// An active message has the kind "active" or "active announce", which correspond to the kinds
// "eager" and "announce" of messages that a receive matches. The tag field of an active message
// contains the length of the caller's header. The caller's header stands between the protocol
// header and the data of an active message.
//
// Fragments can arrive out of order. The receiver sorts the envelopes (message headers that take
// part in matching) by number before matching. Message data can arrive in any order. Messages of
// the kinds "clear", "fin", "data", "matched" and "credit" have headers of at most 40 bytes, with
// the fields below:
//
//	kind     number             at 8               at 16              at 24         at 32
//	clear    status             send id            receive id         region        size
//	fin      status             receive id
//	data     0                  receive id         message offset     bytes by put
//	matched  0                  send id
//	credit   received messages  received bytes
//
// A message is unexpected until it is received or dropped. The unexpected messages from a peer are
// limited to EnvelopesMax envelopes and UnexpectedBytes of eager data. A message whose data would
// exceed the limit UnexpectedBytes is only announced. A receiver reports to each sender how many
// messages and bytes it has received from this sender (credit). While the limits on unexpected
// messages do not allow one more message to a peer, the sender queues its messages to this peer.
// Both peers must have equal Configs. If the receiver refuses the tag of a message (see Refuse), it
// drops the message and counts it as received. An active message counts as received when its
// handler has returned. If the handler has called Keep, the message counts as received only after a
// call of RecvMessage or Drop. Of an announced active message, only the header counts towards the
// limits on unexpected messages.
//
// Only the goroutine that calls Progress may use a Layer. A Layer has no lock, no goroutine and no
// clock, so that a simulator can run the same code as production.
package pml
