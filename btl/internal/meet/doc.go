// Package meet has the rules of the handshake between two modules: which addresses are proven, to
// which endpoint of a peer an endpoint is bound, and which peers are accepted. Events go in,
// decisions come out.
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
//   - Peers may connect to each other at the same time, give up, connect again, and restart, while
//     their Hellos overtake each other. Most of the rules say which end of the peer is meant.
//   - Nothing is believed because a packet says so: an address is proven by a nonce or a cookie
//     that came back from it.
//   - The package has the Table of endpoints and how far each is. A Host
//     does to endpoints what Handshakes decides: btl/handshake_host.go.
//
// Start reading at Handshakes, then Handshake, Tagged.Claim, Proof.Outcome and Table.
//
// What is here belongs to the goroutine of its owner.
package meet
