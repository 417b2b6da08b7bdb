package reliability

import "gobtl/internal/seq"

// An acknowledgement frees packets, opens the congestion window and hides losses; a peer that
// acknowledges what it has not received could have a sender send as fast as it likes (Savage et
// al., 1999; RFC 9000 section 21.4). So now and then a packet gets its number and is not sent,
// while later ones are (Sherwood et al., 2005). To an honest receiver it looks lost, and it is sent
// when it would have been sent again. Who acknowledges it before tells what it cannot know.
//
//	admitted   1 .. n-1   n          n+1 ..
//	on wire    sent       withheld   sent    --> the peer reports a gap at n --> n is sent

// Tests says whether packets may be withheld: only where a congestion window bounds the sender, for
// else acknowledgements raise no rate; one at a time, and after some round trips again: a path that
// takes a whole window stands still until it has come. Who acknowledges too soon makes these short.
func (s *Sender) Tests() bool {
	a := s.policy.adaptive
	return a != nil && !a.fixed && !s.withholds && a.untested >= untestedRounds
}

// untestedRounds are the round trips between two packets that are withheld, at least.
const untestedRounds = 100

// Withhold notes that packet n, which was posted under its first number, is not sent now. Later
// packets must be, for they have the peer report the gap. It Tests.
func (s *Sender) Withhold(n seq.Num) {
	s.withheld, s.withholds = n, true
	s.policy.adaptive.untested = 0
}

// Withheld says whether packet n was given a number and never sent.
func (s *Sender) Withheld(n seq.Num) bool { return s.withholds && s.withheld == n }

// Honest says whether a plausible ACK leaves out what was withheld.
func (s *Sender) Honest(ack seq.Num) bool { return !s.withholds || ack.Before(s.withheld) }

// honestSack is Honest for an acknowledgement that is selective.
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

// lostOne counts a packet that is taken for lost, unless it was only withheld.
func (a *adaptive) lostOne(s *Sender, n seq.Num) {
	if !s.Withheld(n) {
		a.cong.lost++
	}
}
