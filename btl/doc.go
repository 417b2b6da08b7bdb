// Package btl is a byte transfer layer over unreliable datagrams, modelled on Open MPI's usnic BTL.
// The package takes fragments (messages) from the layer above and cuts each fragment into segments
// of one datagram. Every fragment is delivered whole and exactly once to the handler of its tag at
// the peer, or is written into memory that the peer has exposed.
//
// # One owner
//
// A Module belongs to the goroutine that calls Progress. All methods of Module, Endpoint, Fragment
// and Region must be called from that goroutine, which includes callbacks. Methods that any
// goroutine may call, such as Stats and Wake, say so in their comments. A module has no goroutine,
// lock or clock of its own, and does nothing between two calls of Progress. Package runner wraps a
// module for ordinary programs. The calls of runner take a context, may block, and may be made by
// any goroutine. Drivers like runner also use Hooks. In the comments of this package, a pass is one
// call of Progress.
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
// link_seq.go is for fabrics that may lose packets, and link_counted.go is for fabrics that are
// reliable.
//
// A module has two channels, each with its own fabric endpoint and queues. The command channel is
// polled first, and carries ACKs and fragments that fit a datagram of Config.TinyBytes. The data
// channel carries all other packets, and all retransmissions. If the first completion of a poll is
// a fragment in a single packet, the handler is called before the receive state is updated (fast
// receive).
//
// Handshakes are decided in internal/meet and carried out in handshake_host.go. The timers of
// endpoints are in internal/liveness, and the targets of puts in region.go. Package reliability
// defines the states of a segment, and docs/protocol.md the wire format.
package btl
