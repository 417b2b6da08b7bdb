package reliability

import "gobtl/internal/seq"

// An ACK frees the acknowledged packets and enlarges the congestion window. A peer that
// acknowledges packets before they arrive (optimistic ACKs) could raise the rate of a sender at
// will (Savage et al., 1999, and RFC 9000 section 21.4). To detect optimistic ACKs, the sender
// sometimes skips a packet, which means that the sender gives the packet a sequence number but
// sends packets with higher numbers before it (Sherwood et al., 2005). An honest receiver reports
// the skipped packet as missing, which makes the sender transmit this packet for the first time, in
// the same way as a retransmission. A peer that acknowledges a packet that was not sent yet
// violates the protocol.
//
//	admitted   1 .. n-1   n          n+1 ..
//	on wire    sent       withheld   sent    --> the peer reports a gap at n --> n is sent

// Tests reports whether the caller may hold back (number but not send) a packet at present, to
// detect optimistic ACKs. A sender without a congestion window holds back no packet, because ACKs
// do not raise the rate of this sender. At most one packet is held back (numbered but not sent) at
// a time, and at most one in untestedRounds round trips. A sender holds back packets (numbers but
// does not send them) only rarely, because each packet that is held back can prevent a sender with
// a full window from sending for a round trip.
func (s *Sender) Tests() bool {
	a := s.policy.adaptive
	return a != nil && !a.fixed && !s.withholds && a.untested >= untestedRounds
}

// untestedRounds is the minimum number of round trips between two packets that are held back
// (numbered but not sent), to detect optimistic ACKs.
const untestedRounds = 100

// Withhold records that packet n is held back, which means that the caller has called Post for
// packet n, but does not send it yet. After Withhold, the caller must send packets with numbers
// above n, so that the peer can notice and report that packet n is missing. The caller must not
// call Withhold unless Tests has returned true.
func (s *Sender) Withhold(n seq.Num) {
	s.withheld, s.withholds = n, true
	s.policy.adaptive.untested = 0
}

// Withheld reports whether packet n is held back, which means that it has a number but was not sent
// yet.
func (s *Sender) Withheld(n seq.Num) bool { return s.withholds && s.withheld == n }

// Honest reports whether an ACK covers only packets that were sent, and not a packet that is held
// back (numbered but not sent).
func (s *Sender) Honest(ack seq.Num) bool { return !s.withholds || ack.Before(s.withheld) }

// honestSack reports whether a selective acknowledgement covers only packets that were sent, and
// not a packet that is held back (numbered but not sent).
func (s *Sender) honestSack(ack seq.Num, sack *Sack) bool {
	if !s.withholds {
		return true
	}
	if !ack.Before(s.withheld) || sack.Last == s.withheld {
		return false
	}
	bit := s.withheld.Sub(ack) - sackAhead
	if bit < 0 || int(bit)/64 >= len(sack.Words) || ack.Before(s.oldest-1) {
		return true // an outdated ACK frees nothing
	}
	return sack.Words[bit/64]>>(bit%64)&1 == 0
}

// lostOne counts packet n as lost by the network, unless packet n was held back (numbered but not
// sent).
func (a *adaptive) lostOne(s *Sender, n seq.Num) {
	if !s.Withheld(n) {
		a.cong.lost++
	}
}
