// Package pmtu searches for the largest datagram that the path to a peer carries, in the manner of
// RFC 8899 (DPLPMTUD). A Search receives events and decides which probes to send. During the path
// MTU search, no datagram with data is larger than the largest answered probe.
//
//	          the device's size first, then       nothing between what passes
//	          what lies between                   and what does not
//	Begin --> searching ---------------------------> complete +
//	           ^  ^  |                                 |  |   | after a while it asks again
//	           |  |  +-- several packets in a row lost-+  |   | for what did not pass
//	           |  |               |                   <---+---+
//	           |  +--- it passes --- doubting
//	           |                      |    |
//	           +-- only the base -----+    +-- not even the base, but small ones --> narrow
//	               passes                      for a while
//
// Three things to know:
//   - A single answered probe proves that the path carries a datagram size, but only several rounds
//     of unanswered probes exclude a datagram size. The answer to a probe contains the size of the
//     probe and a secret. A Search gets a new secret when answers to the probes sent so far must no
//     longer be accepted.
//   - The arrival of a datagram proves that the path carries datagrams of this size only if the
//     datagram was sent separately. Datagrams that are sent together can travel as one coalesced
//     message, which a device can forward although it would drop each of these datagrams if it were
//     sent separately.
//   - A Search handles no packets and reads no clock, and package path sends its probes.
//
// A Search is not safe for concurrent use.
package pmtu
