// Package liveness runs the timer of each endpoint, records when packets of the peers arrive,
// probes silent peers, and decides that a peer is dead.
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
//   - A peer counts as dead if its answer has been outstanding for PeerTimeout, and it has not
//     answered at least TriesMin probes or retransmissions. An outstanding answer by itself does
//     not prove that a peer is dead, because it is possible that the local process was suspended.
//   - A peer whose application computes for a long time is silent but not dead. The answer that is
//     outstanding from a peer can be an ACK of the oldest packet in flight, a requested ACK, or the
//     answer to a probe.
//   - A Peer handles no packets and reads no clock. All times in a Peer are on a clock that does
//     not advance while the local process is suspended.
//
// A Peer is not safe for concurrent use.
package liveness
