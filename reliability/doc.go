// Package reliability decides, for the datagrams of one module, which are in flight, which have
// arrived, what to acknowledge and what to send again. It sees sequence numbers and Tokens only: no
// bytes, no socket, no clock, no goroutine; instants come in as arguments, deadlines go out as
// results.
//
//	Sender     one per peer: the send window [oldest, next), its credit limit, cumulative ACKs
//	Receiver   one per peer: the receive window, duplicates, when to acknowledge, credits granted
//	Segments   one per module: every send segment, the retransmission hotel, the resend list
//	Credits    one per module: how many packets all peers together may have on their way to us
//	Rules      the numbers of a recovery profile
//
// A send segment is always in exactly one state:
//
//	        Queue              Post                    Expire, FastRetransmit
//	Free ---------> Queued ----------> Posted --------------------------------> Resend
//	 ^ |                               ^  | |                                     | |
//	 | +------------- Post ------------+  | +<------------- Repost ---------------+ |
//	 +--------------- Acked --------------+                                         |
//	 +--------------- Acked --------------------------------------------------------+
//
// Free includes the time in which the segment is lent to the caller. Posted means that its
// retransmission timer runs: it has a room in the hotel.
//
// The `usnic` profile keeps the rules of Open MPI's usnic BTL (opal/mca/btl/usnic, btl_usnic_ack.c
// and btl_usnic_recv.h) with its documented times: cumulative ACKs, retransmission of the oldest
// segment on the first duplicate ACK, a fixed 100 ms timer per segment. Where usnic is known to
// fail this package departs from it: numbers have 32 bits, repeated time-outs back off, an ACK that
// only answers a duplicate starts no retransmission, and the receiver grants credits. Its decisions
// are in Sender.OnAck (what an ACK says is lost) and Segments.stay (how long a segment may wait).
//
// The `adaptive` profile, the default over what is not reliable, shares window, credits and the
// resend list with it. Its Senders have timers, segments have none (NewAdaptive, Sender.Adapt):
// recovery.go has the timer and the time-outs, rack.go what an ACK says has arrived or is lost,
// path.go the round trip, congestion.go the window.
//
// Nothing here is safe for concurrent use: one goroutine owns a module and everything in it.
package reliability
