package reliability

import "gobtl/internal/seq"

// An acknowledgement frees packets, opens the congestion window and hides losses; a peer that
// acknowledges packets it has not received could raise a sender's rate at will (Savage et al.,
// 1999; RFC 9000 section 21.4). So now and then a packet gets a number but is not sent, while later
// ones are (Sherwood et al., 2005). To an honest receiver the packet looks lost; it is sent when
// its retransmission would be due. A peer that acknowledges it earlier is lying.
//
//	admitted   1 .. n-1   n          n+1 ..
//	on wire    sent       withheld   sent    --> the peer reports a gap at n --> n is sent

// Tests says whether packets may be withheld: only with a congestion window, as otherwise ACKs do
// not raise the rate; one at a time, and some round trips apart, as a sender with a full window in
// flight stalls until the withheld packet arrives. Optimistic ACKs shorten these round trips.
func (s *Sender) Tests() bool {
	a := s.policy.adaptive
	return a != nil && !a.fixed && !s.withholds && a.untested >= untestedRounds
}

// untestedRounds is the least number of round trips between two withheld packets.
const untestedRounds = 100

// Withhold notes that packet n, which was posted under its first number, is not sent now. Later
// packets must be sent, as they make the peer report the gap. Tests must be true.
func (s *Sender) Withhold(n seq.Num) {
	s.withheld, s.withholds = n, true
	s.policy.adaptive.untested = 0
}

// Withheld says whether packet n was given a number and never sent.
func (s *Sender) Withheld(n seq.Num) bool { return s.withholds && s.withheld == n }

// Honest says whether a plausible ACK does not cover the withheld packet.
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
		return true // of an old one nothing counts
	}
	return sack.Words[bit/64]>>(bit%64)&1 == 0
}

// lostOne counts a packet that is declared lost, unless it was only withheld.
func (a *adaptive) lostOne(s *Sender, n seq.Num) {
	if !s.Withheld(n) {
		a.cong.lost++
	}
}
