package meet

import "strconv"

// State is the stage of a connection.
type State uint8

// The states.
const (
	Connecting State = iota // opened here, handshake under way
	Accepting               // opened by the peer, its address not proven yet
	Connected
	Lingering // closed by the peer; only repeats its last ACK
	Ended
)

// String returns the state.
func (s State) String() string {
	return word([]string{"connecting", "accepting", "connected", "lingering", "ended"}, int(s))
}

// word returns the name of a value, or its number if it has no name.
func word(words []string, value int) string {
	if value < len(words) {
		return words[value]
	}
	return "unknown " + strconv.Itoa(value)
}

// Tagged is an endpoint's state when a Hello or HelloAck with its tag comes, from an endpoint of
// the expected incarnation of the peer.
type Tagged struct {
	State   State
	Settled bool // the handshake is over
	Bound   bool // the endpoint deals with an end of the peer
	Same    bool // it is that end
	Free    bool // no other end of the peer was told the endpoint's tag
	Stale   bool // the end that it deals with may be gone
	Lower   bool // of the two modules this one's incarnation is not the higher one
}

// Claim is the decision about a peer's endpoint that proves to know an endpoint's tag.
type Claim uint8

// The claims.
const (
	ClaimIgnored   Claim = iota // it is another end's
	ClaimTaken                  // it is the end that the endpoint deals with
	ClaimBinds                  // from now on it is
	ClaimRestarts               // neither: the endpoint begins again under a new tag
	ClaimContested              // as before, but not both sides at once: this one waits for a while
)

// String returns what becomes of the end.
func (c Claim) String() string {
	return word([]string{"ignored", "taken", "binds", "restarts", "contested"}, int(c))
}

// Claim says whether the end that has sent a packet of a handshake with the endpoint's tag is the
// one that the endpoint deals with. An endpoint that deals with none yet takes it. It deals with
// one only: two that both think themselves connected to it would mix their packets.
func (f *Tagged) Claim() Claim {
	switch {
	case f.Same && (f.Bound || f.Settled):
		return ClaimTaken
	case f.Settled || f.Bound && f.State != Connecting:
		return ClaimIgnored
	case f.Free: // the end that it was bound to was told no tag, and cannot be connected
		return ClaimBinds
	case f.Bound && !f.Stale:
		return ClaimIgnored
	case f.Bound || f.Lower:
		return ClaimRestarts
	}
	return ClaimContested
}

// Proof is what is known when the peer of a half-open endpoint proves its address: the endpoint
// that the address led to before, if there is one and it is another.
type Proof struct {
	Known    bool // there is
	SameLife bool // of the peer
	State    State
	Newer    bool // it was made after the half-open one
	Named    bool // the caller is connecting to it by name
	Told     bool // an end of the peer was told its tag, or is the one that it deals with
}

// Outcome is what becomes of both.
type Outcome uint8

// The outcomes.
const (
	OutcomeAlone      Outcome = iota // the half-open one goes on, and the address leads to it
	OutcomeLate                      // what proves it is of a life that is over: it ends
	OutcomeUndecided                 // both go on: the other may be of the later life
	OutcomeRestarted                 // it goes on, the other ends: its life is over
	OutcomeSupersedes                // it goes on, the other is asked whether it is there still
	OutcomeMerges                    // the other, that nobody knows of, takes its place
)

// String returns what becomes of both.
func (o Outcome) String() string {
	return word([]string{
		"alone", "late", "undecided", "restarted", "supersedes", "merges",
	}, int(o))
}

// Outcome decides by the incarnations of the peer. An endpoint that is connected to an incarnation
// found later overrules a late proof. A caller that connects by name after the half-open endpoint
// was made may know the later incarnation; the one that connects decides. (A name that was known
// before the half-open one had its tag is of a life before the one that has returned the tag.)
func (p *Proof) Outcome() Outcome {
	connected, connecting := p.State == Connected, p.State == Connecting
	switch {
	case !p.Known:
		return OutcomeAlone
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
	return OutcomeAlone
}
