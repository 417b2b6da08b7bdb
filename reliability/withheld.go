package reliability

import "gobtl/internal/seq"

// An acknowledgement frees packets, opens the congestion window and hides losses. A peer that
// acknowledges packets before their arrival (an optimistic ACK) could raise a sender's rate at
// will (Savage et al., 1999, and RFC 9000 section 21.4). To detect optimistic ACKs, the sender
// holds back a packet now and then. A packet that is held back has a sequence number but is not
// sent, while packets with later numbers are sent (Sherwood et al., 2005). To an honest receiver
// the held-back packet seems to be lost, and the sender sends the packet at the time when a lost
// packet would be retransmitted. A peer that acknowledges a held-back packet although it was not
// sent violates the protocol.
//
//	admitted   1 .. n-1   n          n+1 ..
//	on wire    sent       withheld   sent    --> the peer reports a gap at n --> n is sent

// Tests reports whether a packet may be held back now, to detect optimistic ACKs. A packet is
// held back only with a congestion window, because without a congestion window ACKs do not raise
// the rate. At most one packet is held back at a time, and at most one in untestedRounds round
// trips, because a sender with a full window must wait until the held-back packet has arrived.
func (s *Sender) Tests() bool {
	a := s.policy.adaptive
	return a != nil && !a.fixed && !s.withholds && a.untested >= untestedRounds
}

// untestedRounds is the least number of round trips between two packets that are held back to
// detect optimistic ACKs.
const untestedRounds = 100

// Withhold records that packet n is not sent now, although Post was called for the packet. After
// Withhold, the caller must send packets with numbers above n, because the arrival of these packets
// makes the peer report packet n as missing. The caller may call Withhold only after Tests has
// returned true.
func (s *Sender) Withhold(n seq.Num) {
	s.withheld, s.withholds = n, true
	s.policy.adaptive.untested = 0
}

// Withheld reports whether packet n has a number but was never sent.
func (s *Sender) Withheld(n seq.Num) bool { return s.withholds && s.withheld == n }

// Honest reports whether a plausible ACK does not cover the packet that is held back.
func (s *Sender) Honest(ack seq.Num) bool { return !s.withholds || ack.Before(s.withheld) }

// honestSack works like Honest, for a selective acknowledgement.
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

// lostOne counts packet n as lost by the path, unless the packet was held back and never sent.
func (a *adaptive) lostOne(s *Sender, n seq.Num) {
	if !s.Withheld(n) {
		a.cong.lost++
	}
}
