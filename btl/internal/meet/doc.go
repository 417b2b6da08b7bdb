// Package meet implements the rules of the handshake between two modules. The rules decide
// which addresses are proven, with which endpoint of a peer an endpoint communicates, and which
// peers are accepted. The owner passes in events, and the package returns decisions.
//
//	  Connect                 a peer's Hello
//	     |                          |
//	     v                          v   Strangers: a Retry with a cookie, until
//	     |                          |   the Hello shows cookies for both its addresses
//	     |                          v
//	Connecting                  Accepting (half open)
//	     |                          |
//	     v                          v   Handshake, Tagged.Claim, Proof.Outcome
//	  both channels work, both ways, and the peer knows it
//	     |
//	     v
//	 Connected ---> Lingering (the peer said goodbye) ---> Ended
//
// Three things to know:
//   - Two peers may connect to each other at the same time, give up, connect again, and restart,
//     while their Hellos overtake each other. Most rules decide which endpoint of the peer a
//     Hello belongs to.
//   - A packet proves nothing by its claims. An address is proven only by a nonce or cookie that
//     was sent to the address and came back.
//   - The package holds the Table of endpoints and the state of their handshakes. A Host carries
//     out the decisions of Handshakes: btl/handshake_host.go.
//
// Start reading at Handshakes, then Handshake, Tagged.Claim, Proof.Outcome and Table.
//
// All types of this package belong to the goroutine of their owner.
package meet
