// Package liveness runs the timer of each endpoint, records when its peer was heard, probes
// silent peers for signs of life, and decides that a peer is dead.
//
//	events in                          questions
//	  Heard, Acked, Answered    +------+  Verdict: is the peer dead, and when is it tried again?
//	  FirstInFlight, Resent --> | Peer | --> SignDue: is a sign of life due?
//	  Asked, AskedLife, ...     +------+  SilentChannels: which channels need a packet?
//	                               |
//	  Set, Watch, WatchAsks,   +---------+ Host: ask by a Hello, or by a packet that has a number
//	  Supersede, AskSilent --> | Watches | --> Host: go on with a handshake
//	  Expire                   +---------+ Host: end the endpoint, with the reason
//
// Three things to know:
// Three things to know:
//   - A peer is dead when it has owed an answer for too long and several probes had no answer.
//     Time alone proves nothing, because the process of this side may have been stopped.
//   - A peer that computes is silent but alive. A peer may owe an acknowledgement of the oldest
//     packet, a requested acknowledgement, or a sign of life, and is judged by what it has owed
//     longest.
//   - A Peer handles no packets and reads no clock. All instants are on a clock that stops while
//     the owner does not run.
//
// Start reading at Watches and Verdict.
//
// A Peer belongs to the goroutine of its owner.
package liveness
