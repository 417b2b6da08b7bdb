// Package btl is a byte transfer layer over unreliable datagrams, modelled on Open MPI's usnic BTL:
// it takes fragments from the layer above, cuts them into segments of one datagram each, and
// delivers every fragment whole and exactly once to the handler of its tag at the peer, or puts it
// into memory that the peer has exposed.
//
// # One owner
//
// A Module belongs to one goroutine: the one that calls Progress. All methods of Module, Endpoint,
// Fragment and Region must be called from it, also from inside callbacks, except for those that say
// otherwise (Stats, Wake). Nothing happens between two calls of Progress: no goroutine, no lock, no
// clock. Package runner wraps a module for ordinary programs: any goroutine, context, blocking
// calls. A driver of that kind uses Hooks beside the rest.
//
// # The life of a packet
//
//	Send, SendImmediate          send.go        at once, into a pack, or into a queue
//	     |         |
//	     |      to-send lists    flow.go        endpoints in turn
//	     |         |
//	     +----+----+    pack.go, send.go        which fragments, on which channel
//	          |
//	       packet       egress.go               a value: header, endpoint, fragment, send buffer
//	          |
//	        seal        link.go                 number, ACK that rides on it, timer
//	          |
//	        write       egress.go               the header's bytes: here, and nowhere else
//	          |
//	     channel.batch  channel.go  ---> Post ----------------------> the other side's
//	          |                                                             |
//	        txDone      buffers.go  <--- Poll, a send has completed         |
//	          |                                                             |
//	   in flight  --->  resend.go   lost, refused: refresh, Post again      |
//	          |                                                             |
//	       release      ack.go      acknowledged, or confirmed: the         |
//	                                fragment ends with its last packet      |
//	                                                                        |
//	  Poll  <---------------------------------------------------------------+
//	    |           landing.go      chunks that come as expected stand in their place already
//	  decode        ingress.go      an arrival: header, endpoint, payload; or a counted drop
//	    |
//	  admit         link.go         its ACK, its number: is it news?
//	    |
//	  accept        recv.go         handler, put, chunk, pack: taken over, or refused
//	    |
//	  accepted      link.go         an ACK may cover it from now on, and is owed
//	    |
//	  deliver       recv.go         the handler of its tag, when the fragment is whole
//
// link_seq.go and link_counted.go have what differs between a fabric that may lose packets and one
// that does not.
//
// A module has two channels, each with its own endpoint and queues. Command carries ACKs and
// fragments that fit a tiny datagram; it is polled first. Data carries the rest, and everything
// that is sent again. A fragment of one packet that comes first on either is delivered before its
// book-keeping (fast receive).
//
// handshake.go has the rules of the handshake, which connect.go and handshake_apply.go carry out,
// region.go the targets of puts, doc.go of package reliability the states of a segment, and
// docs/protocol.md the wire.
package btl
