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
//	           +-- the base alone ----+    +-- not even the base, but small ones --> narrow
//	               passes                      for a while
//
// Three things to know:
//   - A single answered probe proves that the path carries datagrams of its size. Several rounds of
//     unanswered probes are necessary to exclude a datagram size. The answer to a probe contains
//     the size of the probe and a secret. When the Search must no longer accept answers to older
//     probes, it draws a new secret.
//   - The arrival of a datagram proves that the path carries datagrams of its size only if the
//     datagram was sent by itself. Datagrams that are sent together can travel as one coalesced
//     message. A device can forward a coalesced message although it would drop a single datagram of
//     the same size.
//   - A Search does not process packets and does not read a clock. Package path sends the probes of
//     a Search.
//
// Only one goroutine may use a Search.
package pmtu
