package liveness

import (
	"time"

	"gobtl/internal/seq"
)

// View is what Watches has to know of an endpoint when its timer expires or is set.
type View struct {
	Accepting   bool // half open: the peer has not proven its address
	Connected   bool
	Lingering   bool // closed by the peer
	Handshaking bool // a handshake is under way, perhaps of a connected endpoint
	Closing     bool // this side closes it
	CloseAt     Time // since when its own goodbye has been due
	Counted     bool // packets have no timers: the peer is asked for confirmations
	InFlight    bool // packets are not acknowledged, or not confirmed
	Open        bool // there are credits to send something
	Unsent      bool // something waits to be sent
	Asks        bool // the peer owes answers to operations
	Next        seq.Num
}

// Owed says whether the peer of a counted link owes a confirmation, or its first credits.
func (v *View) Owed() bool { return v.Counted && (v.InFlight || !v.Open) }

// Why says why Watches ends an endpoint.
type Why uint8

// The reasons.
const (
	WhyDead     Why = iota // the peer does not answer: the Verdict says what
	WhyBroken              // a reliable fabric could not carry a packet
	WhyUnproven            // the peer of a half-open endpoint has not proven its address in time
	WhyLingered            // the time to repeat the last ACK is over
	WhyClosed              // a close does not get on
	WhyReplaced            // the peer has connected anew, and its end of this connection is gone
)

// String returns the reason.
func (w Why) String() string {
	switch w {
	case WhyDead:
		return "dead"
	case WhyBroken:
		return "broken"
	case WhyUnproven:
		return "unproven"
	case WhyLingered:
		return "lingered"
	case WhyClosed:
		return "closed"
	case WhyReplaced:
		return "replaced"
	}
	return "unknown"
}

// Host carries out what Watches decides. It may call Watches meanwhile.
type Host[E any] interface {
	// Now is the present instant on the owner's axis without pauses; Clock is that of the timers.
	Now() Time
	Clock() Time
	View(ep E) View
	// Sent has the numbers of the packets that were sent last to the peer.
	Sent(ep E) Sent
	// At is the endpoint at a place, and All has those of all places, the zero value where there is
	// none. Latest is the one that the address of an endpoint's peer leads to, or the zero value.
	At(slot uint32) E
	All() []E
	Latest(ep E) E
	// LeadTo has the address of an endpoint's peer lead to it if it leads to none.
	LeadTo(ep E)
	// Handshake goes on with the handshake of an endpoint, whose timer has expired. SendRound has
	// Hellos repeated that lack an answer, and ConfirmAgain those that say that all is proven; both
	// return the time until they are due again.
	Handshake(ep E)
	SendRound(ep E) time.Duration
	ConfirmAgain(ep E) time.Duration
	// Ask asks the peer for a sign of life by a channel. Question asks for a confirmation by a packet
	// that has a number; false means that there is no room for it.
	Ask(ep E, channel int)
	Question(ep E) bool
	// AskLife asks whether the peer has restarted, with a nonce. Random draws one.
	AskLife(ep E, nonce uint64)
	Random() uint64
	// End ends an endpoint.
	End(ep E, why Why, v *Verdict)
}
