// Package pmtu searches for the largest datagram that the path to a peer carries, in the manner
// of RFC 8899 (DPLPMTUD). A Search receives events and decides which probes to send. During the
// path MTU search, data is sent in datagrams of at most the largest size for which a probe was
// answered.
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
//   - A single answered probe proves a datagram size, but only several rounds of unanswered probes
//     exclude a datagram size. The answer to a probe contains the size of the probe and a secret. A
//     new secret is drawn when answers to older probes must not be accepted any more.
//   - Only the arrival of a datagram that was sent by itself proves that the path carries datagrams
//     of its size. Datagrams that are sent together may travel as one coalesced message, which a
//     device may forward although it would drop a single datagram of the same size.
//   - A Search handles no packets and reads no clock, and package path sends its probes.
//
// A Search belongs to one goroutine.
package pmtu
