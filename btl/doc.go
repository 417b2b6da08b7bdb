// Package btl is a byte transfer layer over unreliable datagrams, modelled on Open MPI's usnic BTL:
// it takes fragments from the layer above, cuts them into segments of one datagram each, and
// delivers every fragment whole and exactly once to the handler of its tag at the peer, or puts it
// into memory that the peer has exposed.
//
// # Two faces
//
// A Module belongs to one goroutine: the one that calls Progress. All methods of Module, Endpoint,
// Fragment and Region must be called from it, also from inside callbacks, except for those that say
// otherwise (Stats, Wake). Nothing happens between two calls of Progress: no goroutine, no lock, no
// clock. A Runner wraps a module for ordinary programs: any goroutine, context, blocking calls.
//
// # The life of a message
//
//	Send        send.go       tiny and alone: posted at once, else the endpoint's queue
//	pack        pack.go       small ones behind it share a packet, which the next pass sends
//	serve       flow.go       endpoints in turn; send.go: header, payload, number, timer, post
//	again       resend.go     what is lost or refused: with a fresh ACK, by the data channel
//	Progress    progress.go   one pass: receive, expire timers, send again, send new, acknowledge
//	land        landing.go    chunks that come as expected are put into their place by the provider
//	receive     recv.go       decode, find the endpoint, process the ACK, test the window, deliver
//	acknowledge ack.go        piggy-backed on whatever goes to the peer, else alone after 50 us
//	complete    ack.go        an ACK frees segments; a fragment without any left is done
//
// A module has two channels, each with its own endpoint and queues. Command carries ACKs and
// fragments that fit a tiny datagram; it is polled first. Data carries the rest, and everything
// that is sent again. A fragment of one packet that comes first on either is delivered before its
// book-keeping (fast receive).
//
// handshake.go has the rules of the handshake, which connect.go and meet.go carry out, region.go
// the targets of puts, doc.go of package reliability the states of a segment, and docs/protocol.md
// the wire.
package btl
