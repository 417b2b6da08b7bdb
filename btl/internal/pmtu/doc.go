// Package pmtu searches for the largest datagram that the path to a peer carries, in the manner
// of RFC 8899 (DPLPMTUD). The owner reports events to a Search, and the Search decides which
// probes to send. Meanwhile data is sent in datagrams of up to the largest proven size.
//
//	          the device's size first, then       nothing between what passes
//	          what lies between                   and what does not
//	Begin --> searching ---------------------------> complete +
//	           ^  ^  |                                 |  |   | after a while it asks again
//	           |  |  +-- several packets in a row lost-+  |   | for what did not pass
//	           |  |               |                   <---+---+
//	           |  +--- it passes --- doubting
//	           |                      |    |
//	           +-- the base alone ----+    +-- not even the base, but small ones --> narrow
//	               passes                      for a while
//
// Three things to know:
//   - A Search believes a success at once, but a failure only after several rounds of probes. The
//     answer to a probe names the size of the probe, and carries a secret. A new secret is drawn
//     when answers to older probes must no longer count.
//   - Only a datagram that was sent by itself proves its size. A run of datagrams may travel as
//     one message, which a device may forward although it drops a single datagram of the same
//     size.
//   - A Search handles no packets, reads no clock and calls no other package. Package path sends
//     the probes.
//
// Start reading at Begin and Probes. A Search belongs to one goroutine.
package pmtu
