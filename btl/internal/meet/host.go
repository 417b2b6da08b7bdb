package meet

import (
	"time"

	"gobtl/frag"
)

// Why is the reason for which Handshakes ends an endpoint.
type Why uint8

// The constants below are the reasons for which Handshakes ends an endpoint. An endpoint has failed
// if it ends for any reason except WhyMadeRoom, which means that it made room for another endpoint.
const (
	WhyRestarted  Why = iota // the peer has another incarnation
	WhyUnanswered            // the handshake has timed out
	WhyRejected              // the peer refuses, for the reason in the Reject
	// The endpoint was half open or closed by the peer, and a new endpoint needs its place.
	WhyMadeRoom
	WhyMisled // the peer names another module that cannot be reached
)

// String returns the reason.
func (w Why) String() string {
	return word([]string{"restarted", "unanswered", "rejected", "made room", "misled"}, int(w))
}

// Host carries out the decisions of Handshakes. The methods of a Host may use the Table, but may
// call Handshakes only if the comment of the method names the call.
type Host[E any] interface {
	clock
	endpoints[E]
	packets[E]
	owner[E]
}

// The interface "clock" tells the present time and the number of the present poll.
type clock interface {
	// Clock returns the address of the present time, on a clock that does not advance while the
	// process is suspended.
	Clock() (unpaused *Time)
	// Pass is the number of the present poll.
	Pass() uint64
}

// The interface "endpoints" has the methods that change or query endpoints.
type endpoints[E any] interface {
	// Make makes an endpoint for the addresses of a peer's channels, and calls Handshakes.Enter
	// for the endpoint. Datagrams to the peer have at most tinyBytes on the command channel and
	// mtuBytes on the data channel.
	Make(cmd, data []byte, tinyBytes, mtuBytes int) (E, error)
	// Adopt makes a half-open endpoint use another address for its data channel. The datagram sizes
	// of the endpoint come from the argument "named" of Adopt, or stay unchanged if "named" is nil.
	// Adopt drops all other parameters that came from a Hello.
	Adopt(ep E, data []byte, named *frag.Name) error
	// Bind stores the peer's window and sizes from a Hello. The endpoint's Agreement is already
	// set.
	Bind(ep E, h *frag.Header, hello *frag.Hello)
	// Connected starts the transfer of data, although the peer may not know yet that the endpoint is
	// connected. Connected must end the endpoints in the slice "earlier", which belong to earlier
	// incarnations of the peer.
	Connected(ep E, earlier []E)
	// Settled is called when the handshake is complete. If the argument "confirmed" of Settled is
	// true, the peer is known to be connected. If the argument "unheard" of Settled is true, the
	// peer dropped the packets that arrived before the peer was connected.
	Settled(ep E, confirmed, unheard bool)
	// Restarted deletes the state that the Host has stored about the peer's previous endpoint,
	// because the handshake begins again.
	Restarted(ep E)
	// Supersede starts to probe whether the peer's end of an old connection still exists.
	Supersede(old E)
	// Merge moves the connection of the half-open endpoint "half" to the endpoint "ep" of the same
	// peer. The half-open endpoint that Merge removes was not reported to the application.
	Merge(ep, half E)
	// Move makes a connecting endpoint use the addresses and datagram sizes of another module of the
	// peer's process.
	Move(ep E, to *frag.Name) error
	// End ends an endpoint with a reason.
	End(ep E, why Why, r frag.Reject)
	// SetTimer schedules a call of Handshakes.OnTimer, unless the endpoint is connected.
	SetTimer(ep E, after time.Duration)
	// Usable reports whether an endpoint is neither ended nor closing.
	Usable(ep E) bool
	// Quiet is the time since the latest packet of the peer.
	Quiet(ep E) time.Duration
	// Heard records that a packet of the peer has arrived on a channel. The argument "answers" of
	// Heard is true if the packet answers a probe of a connected endpoint.
	Heard(ep E, by frag.Probe, answers bool)
	// Early records that an endpoint has dropped a packet, because the packet arrived before the
	// handshake was complete.
	Early(ep E)
	// Takes is called when a packet of the peer has reported the peer's endpoint as connected.
	Takes(ep E)
}

// The interface "packets" has the methods that send handshake packets. A handshake packet is lost
// if no buffer is free for it.
type packets[E any] interface {
	// SendHello sends a Hello or HelloAck to the address "to", or to the endpoint's peer if "to" is
	// nil.
	SendHello(ep E, kind frag.Kind, conn uint64, hello *frag.Hello, to []byte)
	// SendReject sends a Reject to an address through a channel.
	SendReject(by frag.Probe, to []byte, tag uint64, version uint8, r frag.Reject)
	// SendMoved sends a HelloAck that names the module to which the receiver must connect instead.
	// The argument "tag" of SendMoved is the connection tag of the receiver.
	SendMoved(to []byte, tag uint64, hello *frag.Hello)
	// SendRetry sends the Retry that the function "retry" makes, and returns true if the Retry was
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
	// Shut reports whether no more endpoints may be made.
	Shut() bool
	// Full reports whether the application has so many unread events that no further endpoint may
	// be made.
	Full() bool
	// AskSilent probes all silent peers, AskSilentOf probes the silent peers of a few endpoints, and
	// AskSilentHosts probes the silent peers for whose endpoints the function "holds" returns true.
	// AskSilent and AskSilentHosts do nothing if they were called a short time ago. AskSilentHosts
	// then returns false.
	AskSilent()
	AskSilentOf(few []E)
	AskSilentHosts(holds func(E) bool) bool
}
