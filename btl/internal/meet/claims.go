package meet

import "gobtl/internal/words"

// State is the stage of a connection.
type State uint8

// The states.
const (
	Connecting State = iota // opened by this side, with a handshake in progress
	Accepting               // opened by the peer, whose address is not validated yet
	Connected
	Lingering // closed by the peer; only repeats its last ACK
	Ended
)

// String returns the state.
func (s State) String() string {
	return words.Name([]string{"connecting", "accepting", "connected", "lingering", "ended"}, int(s),
		"State")
}

// Tagged describes a local endpoint for which a Hello or HelloAck has arrived, and how the sender
// of this packet relates to the endpoint. The caller must make a Tagged only if the Hello or
// HelloAck contains the connection tag of the local endpoint, and comes from the incarnation of the
// peer that the local endpoint expects.
type Tagged struct {
	State   State
	Settled bool // the handshake is over
	Bound   bool // bound to an endpoint of the peer
	Same    bool // the sender is the peer's endpoint to which the local one is bound
	Free    bool // the local tag was sent to no endpoint of the peer except the sender
	Stale   bool // the peer's endpoint to which the local one is bound may be gone
	Lower   bool // this module's incarnation is not higher than the peer's
}

// Claim is the decision whether to bind a local endpoint to the sender of a handshake packet, which
// is an endpoint of the peer that knows the local endpoint's connection tag.
type Claim uint8

// The claims.
const (
	ClaimIgnored   Claim = iota // the tag was sent to a different endpoint of the peer
	ClaimTaken                  // the sender is already the bound endpoint of the peer
	ClaimBinds                  // the sender is bound from now on
	ClaimRestarts               // the handshake begins again under a new tag
	ClaimContested              // like ClaimRestarts, after a wait: one side restarts first
)

// String returns the name of the decision.
func (c Claim) String() string {
	return words.Name([]string{"ignored", "taken", "binds", "restarts", "contested"}, int(c), "Claim")
}

// Claim decides whether the sender of a handshake packet is the peer's endpoint to which the local
// endpoint is bound. If the local endpoint is not bound yet, Claim can decide to bind the local
// endpoint to the sender. An endpoint is bound to only one endpoint of the peer, because it could
// not tell the packets of two peer endpoints apart.
func (f *Tagged) Claim() Claim {
	switch {
	case f.Same && (f.Bound || f.Settled):
		return ClaimTaken
	case f.Settled || f.Bound && f.State != Connecting:
		return ClaimIgnored
	case f.Free: // the bound endpoint has got no tag of this side, and was never connected
		return ClaimBinds
	case f.Bound && !f.Stale:
		return ClaimIgnored
	case f.Bound || f.Lower:
		return ClaimRestarts
	}
	return ClaimContested
}

// Proof describes the situation at the moment when the address of a half-open endpoint's peer is
// validated. A second endpoint is possibly registered for the address of the half-open endpoint.
type Proof struct {
	Known    bool // a second endpoint is registered for the address
	SameLife bool // the second endpoint is for the same incarnation of the peer
	State    State
	Newer    bool // the second endpoint was made after the half-open one
	Named    bool // a local caller is connecting it
	Told     bool // the tag of the second endpoint was sent to the peer, or it is bound
}

// Outcome is the decision which of two endpoints for the same address continues, the half-open
// endpoint or the registered endpoint.
type Outcome uint8

// The outcomes.
const (
	OutcomeContinues  Outcome = iota // the half-open endpoint continues and is registered
	OutcomeLate                      // the half-open endpoint ends: its incarnation is over
	OutcomeUndecided                 // both continue: each is possibly of the later incarnation
	OutcomeRestarted                 // the registered endpoint ends: its incarnation is over
	OutcomeSupersedes                // the registered one is probed, the half-open one continues
	OutcomeMerges                    // the registered one continues the handshake of the half-open one
)

// String returns the name of the decision.
func (o Outcome) String() string {
	return words.Name([]string{
		"continues", "late", "undecided", "restarted", "supersedes", "merges",
	}, int(o), "Outcome")
}

// Outcome decides by the incarnations of the peer whether the half-open endpoint, the registered
// endpoint or both continue. If the registered endpoint was made after the half-open endpoint and
// is connected to a different incarnation, the peer's process with the half-open endpoint's
// incarnation has ended. If the local application began to connect by name after the half-open
// endpoint was made, the name possibly belongs to a later incarnation, and both endpoints continue
// until one of them is connected. If the registered endpoint was made before the half-open endpoint
// and belongs to a different incarnation, the peer's process with the registered endpoint's
// incarnation has ended.
func (p *Proof) Outcome() Outcome {
	connected, connecting := p.State == Connected, p.State == Connecting
	switch {
	case !p.Known:
		return OutcomeContinues
	case !p.SameLife && connected && p.Newer:
		return OutcomeLate
	case !p.SameLife && connecting && p.Named && p.Newer:
		return OutcomeUndecided
	case !p.SameLife:
		return OutcomeRestarted
	case connected:
		return OutcomeSupersedes
	case connecting && !p.Told:
		return OutcomeMerges
	}
	return OutcomeContinues
}
