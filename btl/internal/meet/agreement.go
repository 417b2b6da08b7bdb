package meet

import "gobtl/frag"

// Agreement is the set of protocol features that both sides have agreed on in the handshake. A zero
// Agreement means that the two sides have no feature in common.
type Agreement struct {
	Counted   bool // counted link; without Counted, packets have sequence numbers and timers
	Operates  bool // both sides support memory operations
	Selective bool // on sequenced links, ACKs in Ack packets are selective
	MayAskAck bool // on sequenced links, each side may ask for an ACK
	MayWait   bool // on sequenced links, the ACK of a lone reply may be delayed
}

// Agree returns the Agreement of two sides. The argument "common" of Agree contains the feature
// bits that both sides offer.
func Agree(common uint64) (a Agreement) {
	has := func(bit uint64) bool { return common&bit != 0 }
	a.Counted = has(frag.FeatureReliable)
	a.Operates = has(frag.FeatureOps)
	a.Selective = has(frag.FeatureSack) && !a.Counted
	a.MayAskAck = has(frag.FeatureAsk) && !a.Counted
	a.MayWait = has(frag.FeatureLater) && a.Selective && a.MayAskAck
	return a
}

// Allows reports whether the two sides have agreed on all features that a packet's flags require.
func (a *Agreement) Allows(flags frag.Flags) bool {
	return (flags&frag.FlagOp == 0 || a.Operates) && (flags&frag.FlagAsk == 0 || a.MayAskAck) &&
		(flags&frag.FlagLater == 0 || a.MayWait)
}

// Stage contains the state of a connection, and the features on which the two sides have agreed.
// Only package meet changes a Stage.
type Stage struct {
	Handshake *Handshake // nil once it is over
	State     State
	PeerBegan bool // the peer has begun the connection
	byPeer    bool // Table.ByPeer finds the endpoint
	Agreement
}

// Settled reports whether this side knows that the connection is established on both sides.
func (s *Stage) Settled() bool { return s.State == Connected && s.Handshake == nil }
