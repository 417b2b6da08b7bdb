// Package reliability implements acknowledgements, loss recovery and flow control for the packets
// of one module. Package reliability records which packets are in flight, have arrived, must be
// acknowledged, or must be retransmitted. Package reliability processes only sequence numbers and
// Tokens. The caller of package reliability manages the bytes of packets and the sockets. Package
// reliability reads no clock and starts no goroutine. The caller passes the current time as an
// argument to the functions of package reliability, and gets deadlines from them as results.
//
//	Sender     one per peer, with the send window, the credit limit and cumulative ACKs
//	Receiver   one per peer, with the receive window, duplicates, pending ACKs and granted credits
//	Recovery   one per module, with the timers of the recovery profile
//	Segments   one per module, with all send segments and the retransmission list
//	Credits    one per module, shares the receive capacity among the peers
//	Rules      the parameters of a recovery profile
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
// The segments that the caller owns are in the state Free.
//
// # Profiles
//
// A policy (policy.go) decides which packets are retransmitted, and when to retransmit them. There
// are two policies, "usnic" and "adaptive". The send window, the credits and the retransmission
// list work in the same way in all profiles. A Sender gets its policy from Recovery.Join. On a
// network that loses no packets, a Sender has no policy, and merely counts its packets
// (counted.go).
//
//	               usnic, lossless (usnic.go)          adaptive (adaptive*.go)
//	hotel          a room for each posted segment      a room for each Sender
//	time-out       100 ms (2 s), doubling              follows the round trip of the path
//	found lost by  the first duplicate ACK             time and selective ACKs
//	in flight      window and credits                  a congestion window and a pace, too
//
// The profile usnic keeps the rules and the documented times of Open MPI's usnic BTL
// (opal/mca/btl/usnic, btl_usnic_ack.c and btl_usnic_recv.h). In contrast to Open MPI's usnic BTL,
// the profile usnic has 32-bit sequence numbers, growing intervals between repeated time-outs, and
// credits from the receiver. Unlike in Open MPI's usnic BTL, an ACK that merely answers a duplicate
// packet causes no retransmission.
//
// # Files
//
// The list below names the files of package reliability in a suitable order for reading.
//
//	rules.go             the numbers of a profile
//	credits.go           credits of all peers
//	stretch.go           additional credits for peers on long paths
//	ack_policy.go        when a Receiver acknowledges
//	turns.go             earlier ACKs for a sender that waits for them
//	small.go             more credits for peers that send small packets
//	receiver.go          the receive window
//	segments.go          states, retransmission list
//	words.go             names of verdicts, causes and channels
//	scoreboard.go        the packets of the send window that arrived early or were lost
//	sender.go            the send window, ACKs and credits
//	bytes.go             the limit of bytes in flight
//	counted.go           a Sender and a Receiver that only count
//	usnic.go             the profiles usnic and lossless
//	adaptive_path.go     round-trip estimate of the profile adaptive
//	adaptive_window.go   the congestion window
//	adaptive_delay.go    the congestion window follows the measured delay
//	adaptive_pacer.go    the pacer
//	adaptive.go          the state of a Sender
//	adaptive_timer.go    the timer of a Sender
//	adaptive_loss.go     loss detection
//	adaptive_on_ack.go   processing of ACKs
//	refused.go           packets that the peer has refused for lack of memory
//	withheld.go          packets that are held back, to detect false ACKs
//	lone.go              replies whose ACK may be delayed
//	adaptive_profile.go  a module's timers
//	policy.go            interface of a profile to a Sender
//	profile.go           interface of a profile to a module
//
// No type of this package is safe for concurrent use. Only one goroutine at a time may use the
// Senders, the Receivers and the other objects of a module.
package reliability
