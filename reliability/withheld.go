package reliability

import "gobtl/internal/seq"

// An acknowledgement frees packets, opens the congestion window and hides losses. A peer that
// acknowledges packets before their arrival could raise a sender's rate at will (Savage et al.,
// 1999; RFC 9000 section 21.4). As a test the sender now and then withholds a packet. A withheld
// packet gets a number but is not sent, while packets with later numbers are sent (Sherwood et al.,
// 2005). To an honest receiver the withheld packet looks lost, and the sender sends the packet when
// its retransmission is due. A peer that acknowledges the withheld packet earlier is lying.
//
//	admitted   1 .. n-1   n          n+1 ..
//	on wire    sent       withheld   sent    --> the peer reports a gap at n --> n is sent

// Tests reports whether a packet may be withheld now. A packet is withheld only with a congestion
// window, because without such a window ACKs do not raise the rate. At most one packet is withheld
// at a time, and untestedRounds round trips lie between two, because a sender with a full window
// stalls until the withheld packet arrives. A receiver that sends optimistic ACKs makes
// untestedRounds round trips shorter.
func (s *Sender) Tests() bool {
	a := s.policy.adaptive
	return a != nil && !a.fixed && !s.withholds && a.untested >= untestedRounds
}

// untestedRounds is the least number of round trips between two withheld packets.
const untestedRounds = 100

// Withhold notes that packet n is not sent now, though packet n was posted under its number. Later
// packets must be sent, because later packets make the peer report the gap. Tests must be true.
func (s *Sender) Withhold(n seq.Num) {
	s.withheld, s.withholds = n, true
	s.policy.adaptive.untested = 0
}

// Withheld reports whether packet n was given a number and never sent.
func (s *Sender) Withheld(n seq.Num) bool { return s.withholds && s.withheld == n }

// Honest reports whether a plausible ACK leaves out the withheld packet.
func (s *Sender) Honest(ack seq.Num) bool { return !s.withholds || ack.Before(s.withheld) }

// honestSack is Honest for a selective acknowledgement.
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

// lostOne counts a packet as lost by the path, unless the packet was only withheld.
func (a *adaptive) lostOne(s *Sender, n seq.Num) {
	if !s.Withheld(n) {
		a.cong.lost++
	}
}
