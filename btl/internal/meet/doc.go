// Package meet implements the rules of the handshake between two modules. The rules determine which
// addresses are validated, to which endpoint of the peer each local endpoint is connected, and
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
//   - Two peers can connect to each other at the same time, give up, connect again, and restart,
//     and the network can reorder the Hellos (handshake packets) of two peers. Because a Hello can
//     be late, or belong to an abandoned connection, most rules of package meet determine to which
//     endpoint of the peer a Hello belongs.
//   - An address is validated only if the peer returns a nonce or cookie that was sent to this
//     address.
//   - Package meet contains the Table of endpoints and the state of their handshakes. A Host
//     (btl/internal/peer/handshake_host.go) carries out the decisions of Handshakes.
//
// The types of package meet are not safe for concurrent use.
package meet
