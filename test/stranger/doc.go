// Package stranger is a second, small implementation of the wire protocol, written from
// docs/protocol.md alone, with nothing but Go's standard library and plain UDP sockets. It exists
// to be talked to: what the page does not say, or says wrongly, shows as two programs that do not
// understand each other.
//
// codec.go has the packets, peer.go the sockets, the faults and the loop, conn.go the handshake,
// send.go and recv.go the two directions of a connection. The peer is strict: whatever it receives
// that the page forbids is noted (Peer.Breaches), and the tests want to see none.
//
// It is no second transport for use: one goroutine, no tuning, every packet on the heap.
package stranger
