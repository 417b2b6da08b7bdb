package meet

import (
	"time"

	"gobtl/frag"
	"gobtl/internal/words"
)

// Why is the type of the reasons for which Handshakes ends an endpoint.
type Why uint8

// The constants below are the reasons for which Handshakes ends an endpoint. Every reason except
// WhyMadeRoom means that the endpoint has failed.
const (
	WhyRestarted  Why = iota // the peer has a new incarnation
	WhyUnanswered            // the handshake has timed out
	WhyRejected              // the peer refuses, for the reason in the Reject
	// WhyMadeRoom means that the endpoint was half open, or was closed by the peer, and that a new
	// endpoint needs its slot.
	WhyMadeRoom
	WhyMisled // the peer redirects to a module that cannot be reached
)

// String returns the reason.
func (w Why) String() string {
	return words.Name([]string{"restarted", "unanswered", "rejected", "made room", "misled"}, int(w),
		"Why")
}

// Host carries out the decisions of Handshakes. The methods of a Host may use the Table. The
// methods of a Host must not call Handshakes, except where the comment of a method names the call.
type Host[E any] interface {
	clock
	endpoints[E]
	packets[E]
	owner[E]
}

// The interface "clock" provides the present time and the number of the present poll.
type clock interface {
	// Clock returns a pointer to the present time on a clock that does not advance while the process
	// is suspended.
	Clock() (unpaused *Time)
	// Pass returns the number of the present poll.
	Pass() uint64
}

// The interface "endpoints" has the methods that change or query endpoints.
type endpoints[E any] interface {
	// Make makes an endpoint for the addresses of a peer's channels, and calls Handshakes.Enter
	// for the endpoint. Datagrams to the peer have at most tinyBytes on the command channel and
	// mtuBytes on the data channel.
	Make(cmd, data []byte, tinyBytes, mtuBytes int) (E, error)
	// Adopt makes a half-open endpoint use the address "data" for its data channel. If the argument
	// "named" of Adopt is not nil, Adopt takes the datagram sizes from the Name "named". Adopt drops
	// all parameters that a Hello of the peer has set, except addresses and datagram sizes.
	Adopt(ep E, data []byte, named *frag.Name) error
	// Bind stores the peer's window and datagram sizes from a Hello. When Bind is called, the
	// endpoint's Agreement is already set.
	Bind(ep E, h *frag.Header, hello *frag.Hello)
	// Connected starts the transfer of data, although the peer possibly does not know yet that this
	// side is connected. Connected must end the endpoints in the slice "earlier", which belong to past
	// incarnations of the peer.
	Connected(ep E, earlier []E)
	// Settled is called when the handshake is complete. The argument "confirmed" of Settled says
	// whether the peer is known to be connected. The argument "unheard" of Settled says whether the
	// peer has dropped packets that arrived before the peer was connected.
	Settled(ep E, confirmed, unheard bool)
	// Restarted is called when the handshake begins again. Restarted deletes the state that the Host
	// has stored about the peer's previous endpoint.
	Restarted(ep E)
	// Supersede starts to probe whether the peer's end of an old connection still exists.
	Supersede(old E)
	// Merge moves the connection of the half-open endpoint "half" to the endpoint "ep" of the same
	// peer. The half-open endpoint that Merge removes was not reported to the application.
	Merge(ep, half E)
	// Move makes a connecting endpoint use the addresses and datagram sizes of the module "to", which
	// is a different module in the peer's process.
	Move(ep E, to *frag.Name) error
	// End ends an endpoint with a reason.
	End(ep E, why Why, r frag.Reject)
	// SetTimer schedules a call of Handshakes.OnTimer, unless the endpoint is connected.
	SetTimer(ep E, after time.Duration)
	// Usable reports whether an endpoint has neither ended nor begun to close.
	Usable(ep E) bool
	// Quiet returns the time since the latest packet of the peer arrived.
	Quiet(ep E) time.Duration
	// Heard records that a packet of the peer has arrived on a channel. The argument "answers" of
	// Heard says whether the packet answers a probe of a connected endpoint.
	Heard(ep E, by frag.Probe, answers bool)
	// Early records that an endpoint has dropped a packet that arrived before the handshake was
	// complete.
	Early(ep E)
	// Takes is called when a packet of the peer has reported that the peer's endpoint is connected.
	Takes(ep E)
}

// The interface "packets" has the methods that send handshake packets. If no buffer is free for a
// handshake packet, the packet is not sent.
type packets[E any] interface {
	// SendHello sends a Hello or HelloAck to the address "to", or to the endpoint's peer if "to" is
	// nil.
	SendHello(ep E, kind frag.Kind, conn uint64, hello *frag.Hello, to []byte)
	// SendReject sends a Reject to the address "to" on the network channel "by" (command or data).
	SendReject(by frag.Probe, to []byte, tag uint64, version uint8, r frag.Reject)
	// SendMoved sends a HelloAck that names the module to which the receiver of the HelloAck must
	// connect instead of this one. The argument "tag" of SendMoved is the connection tag of the
	// receiver.
	SendMoved(to []byte, tag uint64, hello *frag.Hello)
	// SendRetry sends the Retry that the function "retry" returns, and reports whether the Retry was
	// sent.
	SendRetry(by frag.Probe, to []byte, tag uint64, retry func() *frag.Retry) bool
	// GiveUp cancels the uncompleted sends to an address, before the address is inserted into the
	// fabric for a new endpoint.
	GiveUp(name []byte)
}

type owner[E any] interface {
	// Ask asks the application whether to accept a new peer. The argument "id" of Ask identifies the
	// request in a later call of Handshakes.Decide. If the argument "id" of Ask is 0, the
	// application must decide immediately.
	Ask(hello *frag.Hello, id uint64) Answer
	// Shut reports whether the module has stopped accepting new endpoints.
	Shut() bool
	// Full reports whether the application has left so many events unread that the module accepts no
	// new endpoints.
	Full() bool
	// AskSilent probes all silent peers. AskSilentOf probes the silent peers of the given endpoints.
	// AskSilentHosts probes each silent peer for whose endpoint the argument "holds" returns true.
	// AskSilent and AskSilentHosts do nothing if their previous scan was less than
	// liveness.Rules.PressAfter ago. AskSilentHosts returns false if it has done nothing.
	AskSilent()
	AskSilentOf(few []E)
	AskSilentHosts(holds func(E) bool) bool
}
