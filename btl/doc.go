// Package btl is a byte transfer layer over unreliable datagrams, modelled on Open MPI's usnic BTL.
// The package sends fragments (messages), which it splits into segments of at most one datagram.
// Every fragment is delivered whole and exactly once to the handler of its tag at the peer, or is
// written into memory that the peer has exposed.
//
// # One owner
//
// A Module belongs to the goroutine that calls Progress. All methods of Module, Endpoint, Fragment
// and Region must be called on the goroutine that calls Progress, inside or outside of callbacks.
// Only methods documented as safe for concurrent use, such as Stats and Wake, may be called on
// different goroutines. A module has no goroutine, lock or clock of its own, and does nothing
// between two calls of Progress. Package runner drives a module, and has methods for sending and
// receiving that are safe for concurrent use. A driver, such as package runner, uses Progress and
// the methods of Hooks.
//
// # The life of a packet
//
// Package btl contains the API for applications, and determines the order of the steps in a call of
// Progress. In the figure below, P marks steps in package internal/peer, and R marks steps in
// package internal/receive.
//
//	Send, SendImmediate          P send.go          at once, into a Pack, or into a queue
//	     |         |
//	     |      to-send lists    P flow.go          endpoints in turn
//	     |         |
//	     +----+----+    P pack.go, send.go          which fragments, on which channel
//	          |
//	       packet       P write_headers.go          header, endpoint, fragment, send buffer
//	          |
//	        seal        P link.go                   number, ACK, timer
//	          |
//	        write       P write_headers.go          the header's bytes
//	          |
//	     Channel.Put    port        ---> Post ------------------------> the other side's
//	          |                                                             |
//	       handle       polling.go  <--- Poll, a send has completed         |
//	          |                                                             |
//	   in flight  --->  P resend.go lost or refused, then posted again      |
//	          |                                                             |
//	       release      P sent.go   acknowledged, and the fragment ends     |
//	                                with its last packet                    |
//	                                                                        |
//	  Poll  <---------------------------------------------------------------+
//	    |           R direct_chunks.go  expected chunks, already in their destination
//	  decode        R read_headers.go   header, endpoint, payload, or a counted drop
//	    |
//	  admit         R link.go           its ACK, and whether its number is new
//	    |
//	  accept        R recv.go           handler, put, chunk, Pack, accepted or refused
//	    |
//	  accepted      R link.go           the next ACK will cover it
//	    |
//	  deliver       R recv.go           the handler of its tag, when the fragment is whole
//
// The files named link_seq.go contain the code for fabrics that can lose packets, and the files
// named link_counted.go contain the code for reliable fabrics.
//
// A module has two channels, each with its own fabric endpoint and queues. The command channel is
// polled first, and carries ACKs and fragments that fit into a datagram of Config.TinyBytes. The
// data channel carries retransmissions, and packets that do not fit into a datagram of
// Config.TinyBytes. Handshakes use the command channel and the data channel. Over a reliable
// fabric, the command channel carries all fragments, and the data channel carries the ACKs. If the
// first completion of a poll is a fragment that has arrived in a single packet, the fragment's
// handler is called before the receive state is updated (fast receive).
//
// Package internal/port contains the channels and their buffers. Package internal/meet decides how
// handshakes proceed, and package internal/peer sends their packets. Package reliability defines
// the states of a segment, and docs/protocol.md defines the wire format.
package btl
