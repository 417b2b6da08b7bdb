// Package liveness runs the timer of each endpoint, records when packets of its peer arrive, probes
// silent peers, and decides that a peer is dead.
//
//	events in                          questions
//	  Heard, Acked, Answered    +------+  Verdict (is the peer dead, and when is it probed again)
//	  FirstInFlight, Resent --> | Peer | --> SignDue (is a probe due)
//	  Asked, AskedLife, ...     +------+  SilentChannels (which channels need a packet)
//	                               |
//	  Set, Watch, WatchAsks,   +---------+ Host (probe by a Hello, or by a numbered packet)
//	  Supersede, AskSilent --> | Watches | --> Host (continue a handshake)
//	  Expire                   +---------+ Host (end the endpoint, with the reason)
//
// Three things to know:
//   - A peer is dead if an answer has been outstanding for too long and several probes were not
//     answered. The time alone proves nothing, because the process of this side may have been
//     stopped.
//   - A peer that computes is silent but not dead. A peer may have to acknowledge the oldest
//     packet, to answer a request for an acknowledgement, or to answer a probe, and is judged by
//     the longest outstanding answer.
//   - A Peer handles no packets and reads no clock. All times are on a clock that stops while the
//     process does not run.
//
// A Peer belongs to one goroutine.
package liveness
