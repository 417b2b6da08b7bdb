package meet

import (
	"time"

	"gobtl/frag"
)

// Why is the reason for which Handshakes ends an endpoint.
type Why uint8

// The constants below are the reasons for which Handshakes ends an endpoint. An endpoint that
// ends for any reason except WhyMadeRoom has failed.
const (
	WhyRestarted  Why = iota // the peer has another incarnation
	WhyUnanswered            // the handshake has timed out
	WhyRejected              // the peer refuses, for the reason in the Reject
	WhyMadeRoom              // it was closed by the peer, and a new endpoint needs its place
	WhyMisled                // the peer names another module that cannot be reached
)

// String returns the reason.
func (w Why) String() string {
	return word([]string{"restarted", "unanswered", "rejected", "made room", "misled"}, int(w))
}

// Host carries out the decisions of Handshakes. The methods of a Host may use the Table and the
// endpoint's End, and may call Handshakes only where the method's comment says so.
type Host[E any] interface {
	clock
	endpoints[E]
	packets[E]
	owner[E]
}

// clock returns the present time and the number of the present poll.
type clock interface {
	// Now is the present time on a clock that does not advance while the process is suspended.
	Now() Time
	// Pass is the number of the present poll.
	Pass() uint64
}

// endpoints has the methods that change or query endpoints.
type endpoints[E any] interface {
	// Make makes an endpoint for the addresses of a peer's channels, and calls Handshakes.Enter
	// for the endpoint. Datagrams to the peer have at most tinyBytes on the command channel and
	// mtuBytes on the data channel.
	Make(cmd, data []byte, tinyBytes, mtuBytes int) (E, error)
	// Adopt makes a half-open endpoint use another address for its data channel. The datagram
	// sizes of the endpoint come from the name named, or stay unchanged if named is nil. Adopt
	// drops all other parameters from a Hello.
	Adopt(ep E, data []byte, named *frag.Name) error
	// Bind stores the peer's window and sizes from a Hello. The endpoint's Agreement is already
	// set.
	Bind(ep E, h *frag.Header, hello *frag.Hello)
	// Connected starts the transfer of data, although the peer may not know yet that the endpoint
	// is connected. The Host must end the endpoints of earlier incarnations of the peer.
	Connected(ep E, earlier []E)
	// Settled is called when the handshake is complete. If confirmed is true, the peer is known
	// to be connected. If unheard is true, the peer dropped the packets that were sent before it
	// was connected.
	Settled(ep E, confirmed, unheard bool)
	// Restarted clears what is known about the peer's endpoint to which ep was bound.
	Restarted(ep E)
	// Supersede starts to probe whether the peer's end of an old connection still exists.
	Supersede(old E)
	// Merge makes ep take over the connection of half to the peer. The endpoint half was not reported
	// to the application.
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
	// Heard records that a packet of the peer has arrived on a channel. The argument
	// answers of Heard is true if the packet answers a probe of a connected endpoint.
	Heard(ep E, by frag.Probe, answers bool)
	// Early records that an endpoint has dropped a packet, because the packet arrived before the
	// handshake was complete.
	Early(ep E)
	// Takes records that a packet of the peer has reported the peer's endpoint as connected.
	Takes(ep E)
}

// packets has the methods that send handshake packets. A handshake packet is lost if no buffer is
// free for it.
type packets[E any] interface {
	// SendHello sends a Hello or HelloAck through its channel, to the address to, or to ep's peer
	// if to is nil.
	SendHello(ep E, kind frag.Kind, conn uint64, hello *frag.Hello, to []byte)
	// SendReject sends a Reject to an address through a channel.
	SendReject(by frag.Probe, to []byte, tag uint64, version uint8, r frag.Reject)
	// SendMoved sends a HelloAck that names another module to an address through its channel. The
	// argument tag of SendMoved is the connection tag of the receiver.
	SendMoved(to []byte, tag uint64, hello *frag.Hello)
	// SendRetry sends the Retry that the function retry makes, and returns true if the Retry was
	// sent.
	SendRetry(by frag.Probe, to []byte, tag uint64, retry func() *frag.Retry) bool
	// GiveUp cancels the sends that wait for an address, because the address is about to be
	// inserted for a new endpoint.
	GiveUp(name []byte)
}

type owner[E any] interface {
	// Ask asks the application whether to accept a new peer. The number id identifies the request for
	// Handshakes.Decide. An id of 0 means that the request cannot be kept.
	Ask(hello *frag.Hello, id uint64) Answer
	// Shut reports whether no more endpoints may be made.
	Shut() bool
	// Full reports whether the application has so many unread events that no further endpoint may
	// be made.
	Full() bool
	// AskSilent probes the silent endpoints for which holds returns true.
	AskSilent(holds func(E) bool)
}
