// Package btl is a byte transfer layer over unreliable datagrams, modelled on Open MPI's usnic BTL:
// it takes fragments from the layer above, cuts them into segments of one datagram each, and
// delivers every fragment whole and exactly once to the handler of its tag at the peer, or puts it
// into memory that the peer has exposed.
//
// # One owner
//
// A Module belongs to one goroutine: the one that calls Progress. All methods of Module, Endpoint,
// Fragment and Region must be called from that goroutine, also from callbacks, except for those
// that say otherwise (Stats, Wake). A module has no goroutine, no lock and no clock: nothing
// happens between two calls of Progress. Package runner wraps a module for ordinary programs: its
// calls take a context, may block, and any goroutine may make them. Drivers like runner also use
// Hooks.
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
// link_seq.go is for fabrics that may lose packets, link_counted.go for those that do not.
//
// A module has two channels, each with its own endpoint and queues. The command channel carries
// ACKs and fragments that fit a tiny datagram; it is polled first. The data channel carries all
// other packets, and all retransmissions. A one-packet fragment that is the first completion of a
// poll is delivered before its book-keeping (fast receive).
//
// See internal/meet for handshakes, whose decisions handshake_host.go carries out;
// internal/liveness for the timers of endpoints; region.go for the targets of puts; package
// reliability for the states of a segment; and docs/protocol.md for the wire format.
package btl
