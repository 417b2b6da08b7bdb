package liveness

import (
	"time"

	"gobtl/internal/seq"
)

// View contains those parts of an endpoint's state that Watches needs to start the endpoint's
// timer, or to handle its expiry.
type View struct {
	Accepting   bool // half open: the peer has not answered at its address yet
	Connected   bool
	Lingering   bool // closed by the peer
	Handshaking bool // a handshake is in progress, perhaps of a connected endpoint
	Closing     bool // this side closes the connection
	CloseAt     Time // time at which the close by this side took effect
	Counted     bool // counted link: probes, and not retransmission timers, request missing ACKs
	InFlight    bool // packets are not acknowledged
	Open        bool // the send window and the credits allow a packet
	Unsent      bool // something waits to be sent
	Asks        bool // answers of the peer to operations are outstanding
	Next        seq.Num
}

// Owed reports whether, on a connection over a reliable fabric, an acknowledgement or credits of
// the peer are outstanding. On a connection over an unreliable fabric, Owed returns false.
func (v *View) Owed() bool { return v.Counted && (v.InFlight || !v.Open) }

// Why is the type of the reasons for which Watches ends an endpoint.
type Why uint8

// The reasons.
const (
	WhyDead     Why = iota // the peer does not answer, for the reason in the Verdict
	WhyBroken              // a reliable fabric could not carry a packet
	WhyUnproven            // the peer of a half-open endpoint did not answer in time
	WhyLingered            // the time to repeat the last ACK is over
	WhyClosed              // the peer has not acknowledged anything new during a close
	WhyReplaced            // the peer has opened a new connection in place of this one
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

// Host carries out the decisions of Watches. The methods of Host may call Watches.
type Host[E any] interface {
	// Clocks returns pointers to two times. The time "unpaused" does not advance while the process is
	// suspended. The time "timers" determines when timers expire.
	Clocks() (unpaused, timers *Time)
	View(ep E) View
	// Sent returns the packet number of the latest packet sent to the peer on each channel.
	Sent(ep E) Sent
	// At returns the endpoint of a slot. All returns the endpoints of all slots, with the zero value
	// for free slots. Latest returns the endpoint that is registered for the address of ep's peer, or
	// the zero value if no endpoint is registered for it.
	At(slot uint32) E
	All() []E
	Latest(ep E) E
	// LeadTo registers an endpoint for its peer's address, unless this address already has a
	// registered endpoint.
	LeadTo(ep E)
	// Handshake continues the handshake of an endpoint whose timer has expired. SendRound repeats the
	// unanswered Hellos. ConfirmAgain repeats the Hellos with which this side reports that both
	// channels work. SendRound and ConfirmAgain return the time until they must be called again.
	Handshake(ep E)
	SendRound(ep E) time.Duration
	ConfirmAgain(ep E) time.Duration
	// Ask sends the peer a probe through a channel. Question sends a numbered packet that requests an
	// acknowledgement, and reports whether a buffer was free for this packet.
	Ask(ep E, channel int)
	Question(ep E) bool
	// AskLife sends a restart probe, which is a Hello with a nonce that asks whether the peer has
	// restarted. Random returns a random number.
	AskLife(ep E, nonce uint64)
	Random() uint64
	// End ends an endpoint with a reason.
	End(ep E, why Why, v Verdict)
}
