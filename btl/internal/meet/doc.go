// Package meet implements the rules of the handshake between two modules. The rules of
// package meet decide which addresses are proven, which two endpoints belong together, and
// which peers are accepted.
//
//	  Connect                 a peer's Hello
//	     |                          |
//	     v                          v   Strangers (a Retry with a cookie, until
//	     |                          |   the Hello has cookies for both its addresses)
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
//     and their Hellos may arrive in another order than sent. Most rules of this package decide to
//     which endpoint of the peer a Hello belongs.
//   - An address is proven only if the peer returns a nonce or cookie that was sent to this
//     address.
//   - The package holds the Table of endpoints and the state of their handshakes, and a Host
//     (btl/internal/peer/handshake_host.go) carries out the decisions of Handshakes.
//
// All types of this package belong to one goroutine.
package meet
