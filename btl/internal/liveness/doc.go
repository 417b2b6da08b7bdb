// Package liveness has the timer of each endpoint, keeps the evidence of whether its peer is alive,
// asks for signs of life, and decides that a peer is dead.
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
//   - A peer is dead when it has owed an answer for too long, and was probed several times
//     meanwhile. Time alone says nothing: the owner of this side may have been stopped.
//   - A peer that computes is silent and lives. It is judged by what it owes longest: an
//     acknowledgement, a confirmation, or a sign of life that it was asked for.
//   - A Peer knows no packet and reads no clock. The instants that it is given are on
//     an axis on which the time does not go on while the owner is stopped.
//
// Start reading at Watches and Verdict.
//
// A Peer belongs to the goroutine of its owner.
package liveness
