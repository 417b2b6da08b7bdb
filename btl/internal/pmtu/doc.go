// Package pmtu searches for the largest datagram that the path to a peer carries, in the manner of
// RFC 8899 (DPLPMTUD). The owner tells a Search what has happened, and the Search says which probes
// to send. Data of the largest proven size flows meanwhile.
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
//   - A failure is believed only after several rounds, a success at once: the answer to a probe
//     names its size, under a secret that is drawn anew when older answers are worth nothing.
//   - Only a datagram that crossed the path alone proves its size. A run of datagrams may travel as
//     one message that a device lets pass where it drops a single datagram.
//   - A Search knows no packet, reads no clock and calls nobody: package path does as it says.
//
// Start reading at Begin and Probes. A Search belongs to one goroutine.
package pmtu
