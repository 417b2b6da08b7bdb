package meet

import "gobtl/frag"

// Agreement is what both sides of a connection have agreed on in the handshake. It is copied as a
// whole. The zero value is that of two sides without any feature in common.
type Agreement struct {
	Counted   bool // packets are counted and nothing is recovered; else they are sequenced
	Operates  bool // operations go both ways
	Selective bool // sequenced: ACKs that go alone are selective, here and there
	MayAskAck bool // sequenced: either side may ask for an ACK
	MayWait   bool // sequenced: the ACK of a lone answer may be held back, here and there
}

// Agree is the agreement of two sides whose common features are the bits of common.
func Agree(common uint64) (a Agreement) {
	has := func(bit uint64) bool { return common&bit != 0 }
	a.Counted = has(frag.FeatureReliable)
	a.Operates = has(frag.FeatureOps)
	a.Selective = has(frag.FeatureSack) && !a.Counted
	a.MayAskAck = has(frag.FeatureAsk) && !a.Counted
	a.MayWait = has(frag.FeatureLater) && a.Selective && a.MayAskAck
	return a
}

// Allows says whether the features that a packet's flags stand for are agreed on.
func (a *Agreement) Allows(flags frag.Flags) bool {
	return (flags&frag.FlagOp == 0 || a.Operates) && (flags&frag.FlagAsk == 0 || a.MayAskAck) &&
		(flags&frag.FlagLater == 0 || a.MayWait)
}

// Stage is how far a connection is, and what its two sides have agreed on. Only this package
// changes it.
type Stage struct {
	state State
	hs    *Handshake // nil once it is over
	Agreement
}

// State is the stage of the connection.
func (s *Stage) State() State { return s.state }

// Handshake is the handshake that is under way, nil if there is none.
func (s *Stage) Handshake() *Handshake { return s.hs }

// Settled says whether the connection is established, and the peer is known to know that.
func (s *Stage) Settled() bool { return s.state == Connected && s.hs == nil }
