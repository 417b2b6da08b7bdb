// Package reliability keeps track of the datagrams of one module. The package records which
// datagrams are in flight, which have arrived, which must be acknowledged and which must be
// retransmitted. The package handles sequence numbers and Tokens, and the caller keeps the bytes
// and the sockets. The package reads no clock and starts no goroutine. The caller passes the
// current time as an argument, and gets deadlines as results.
//
//	Sender     one per peer: the send window [oldest, next), its credit limit, cumulative ACKs
//	Receiver   one per peer: the receive window, duplicates, when to acknowledge, credits granted
//	Recovery   one per module: the timers of its profile; it contains
//	Segments   every send segment, the retransmission list
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
// The caller's own segments are also Free.
//
// # Profiles
//
// A policy (policy.go) decides which packets are retransmitted, and when. There are two policies.
// The window, the credits and the retransmission list work in the same way in both policies. A
// Sender gets its policy from Recovery.Join. For a fabric that loses nothing, a Sender without a
// policy only counts its packets (counted.go).
//
//	               usnic, lossless (usnic.go)          adaptive (adaptive*.go)
//	hotel          a room for each posted segment      a room for each Sender
//	time-out       100 ms (2 s), doubling              follows the round trip of the path
//	found lost by  the first duplicate ACK             time and selective ACKs
//	in flight      window and credits                  a congestion window and a pace, too
//
// The profile usnic keeps the rules and the documented times of Open MPI's usnic BTL
// (opal/mca/btl/usnic, btl_usnic_ack.c and btl_usnic_recv.h). Four rules differ where usnic is
// known to fail. Sequence numbers have 32 bits, repeated time-outs back off, and the receiver
// grants credits. The fourth difference is that an ACK that only answers a duplicate packet starts
// no retransmission.
//
// # Files
//
// Each file uses only the files above it in the list of files, with two exceptions. The file
// sender.go calls policy.go, and a profile is registered in a later file.
//
//	rules.go             the numbers of a profile
//	credits.go           what all peers together may send
//	stretch.go           more of it for those on long paths
//	ack_policy.go        when a Receiver acknowledges
//	receiver.go          the way in: what has arrived
//	segments.go          states, retransmission list
//	sender.go            the window; what a peer's ACKs and credits do to it
//	counted.go           a Sender and a Receiver that only count
//	usnic.go             the profiles usnic and lossless
//	adaptive_path.go     of the profile adaptive: the round trip
//	adaptive_window.go   the congestion window
//	adaptive_pacer.go    the pace
//	adaptive.go          what is kept for a Sender
//	adaptive_timer.go    its timer: when the lack of an ACK is a time-out
//	adaptive_loss.go     what an arrival says of the packets before it
//	adaptive_on_ack.go   what an ACK that has come does to it
//	lone.go              an answer whose ACK may wait for the next request
//	adaptive_profile.go  a module's timers
//	policy.go            what a profile has to answer for a Sender
//	recovery.go          what it has to answer for a module; joining
//
// Nothing in this package is safe for concurrent use. One goroutine owns a module and everything in
// the module.
package reliability
