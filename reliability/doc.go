// Package reliability keeps track of the datagrams of one module: which are in flight, which have
// arrived, which to acknowledge and which to retransmit. It handles only sequence numbers and
// Tokens: no bytes, no socket, no clock, no goroutine. Instants are arguments, deadlines are
// results.
//
//	Sender     one per peer: the send window [oldest, next), its credit limit, cumulative ACKs
//	Receiver   one per peer: the receive window, duplicates, when to acknowledge, credits granted
//	Recovery   one per module: the timers of its profile; it contains
//	Segments   every send segment, the resend list
//	Credits    one per module: how many packets all peers together may have on their way to us
//	Rules      the numbers of a recovery profile
//
// A send segment is always in exactly one state:
//
//	        Queue          Sender.Post         a timer, an ACK, Sender.Refuse
//	Free ---------> Queued ----------> Posted --------------------------------> Resend
//	 ^ |                               ^  | |                                     | |
//	 | +---------- Sender.Post --------+  | +<----------- Sender.Repost ----------+ |
//	 +-- Sender.OnAck, OnSack, Abort -----+                                         |
//	 +-- Sender.OnAck, OnSack, Abort -----------------------------------------------+
//
// A segment that is lent to the caller is Free, too.
//
// # Profiles
//
// A policy (policy.go), of which there are two, decides which packets are retransmitted, and when.
// Window, credits and the resend list are the same for both. A Sender gets its policy from
// Recovery.Join; one that has none, over a fabric that loses nothing, only counts its packets
// (counted.go).
//
//	               usnic, lossless (usnic.go)          adaptive (adaptive*.go)
//	hotel          a room for each posted segment      a room for each Sender
//	time-out       100 ms (2 s), doubling              follows the round trip of the path
//	found lost by  the first duplicate ACK             time and selective ACKs
//	in flight      window and credits                  a congestion window and a pace, too
//
// The profile `usnic` keeps the rules of Open MPI's usnic BTL (opal/mca/btl/usnic, btl_usnic_ack.c
// and btl_usnic_recv.h) with its documented times. It deviates where usnic is known to fail:
// numbers have 32 bits, repeated time-outs back off, an ACK that only answers a duplicate starts no
// retransmission, and the receiver grants credits.
//
// # Files
//
// Each file uses only those above it in this list, except policy.go, which sender.go calls, and
// where a profile is registered.
//
//	rules.go             the numbers of a profile
//	credits.go           what all peers together may send
//	stretch.go           more of it for those on long paths
//	ack_policy.go        when a Receiver acknowledges
//	receiver.go          the way in: what has arrived
//	segments.go          states, resend list
//	sender.go            the window; what a peer's ACKs and credits do to it
//	counted.go           a Sender and a Receiver that only count
//	usnic.go             the profiles usnic and lossless
//	adaptive_path.go     of the profile adaptive: the round trip
//	adaptive_window.go   the congestion window
//	adaptive_pacer.go    the pace
//	adaptive.go          what is kept for a Sender
//	adaptive_timer.go    its timer: when the lack of an answer is a time-out
//	adaptive_loss.go     what an arrival says of the packets before it
//	adaptive_on_ack.go   what an ACK that has come does to it
//	lone.go              an answer whose ACK may wait for the next request
//	adaptive_profile.go  a module's timers
//	policy.go            what a profile has to answer for a Sender
//	recovery.go          what it has to answer for a module; joining
//
// Nothing here is safe for concurrent use: one goroutine owns a module and everything in it.
package reliability
