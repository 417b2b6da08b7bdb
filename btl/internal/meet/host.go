package meet

import (
	"time"

	"gobtl/frag"
)

// Why is the reason for which Handshakes ends an endpoint.
type Why uint8

// The reasons. An endpoint that ends for a reason other than WhyMadeRoom has failed.
const (
	WhyRestarted  Why = iota // the peer has another incarnation
	WhyUnanswered            // the time for the handshake is over
	WhyRejected              // the peer refuses: the Reject says why
	WhyMadeRoom              // it only lingers, and another one takes its place
)

// String returns the reason.
func (w Why) String() string {
	return word([]string{"restarted", "unanswered", "rejected", "made room"}, int(w))
}

// Host carries out the decisions of Handshakes, which calls the Host from its own methods. The
// Host's methods may call the Table and the endpoint's End. A method may call Handshakes only
// where its comment says so.
type Host[E any] interface {
	clock
	endpoints[E]
	packets[E]
	owner[E]
}

// clock tells the time.
type clock interface {
	// Now is the present instant, on a clock that stops while the owner does not run.
	Now() Time
	// Pass is the number of the current progress pass.
	Pass() uint64
}

// endpoints has the methods that change or query endpoints.
type endpoints[E any] interface {
	// Make makes an endpoint for the addresses of a peer's channels, and calls Handshakes.Enter
	// for it. Datagrams have at most tinyBytes (command channel) and mtuBytes (data channel).
	Make(cmd, data []byte, tinyBytes, mtuBytes int) (E, error)
	// Adopt makes a half-open endpoint use another address for its data channel. The datagram
	// sizes come from named; if named is nil, they stay unchanged. All other parameters from a
	// Hello are dropped.
	Adopt(ep E, data []byte, named *frag.Name) error
	// Bind stores the peer's window and sizes from a Hello. The endpoint's Agreement is already
	// set.
	Bind(ep E, h *frag.Header, hello *frag.Hello)
	// Connected starts the transfer of data, although the peer may not know yet that the
	// endpoint is connected. The Host must end the endpoints of earlier incarnations of the
	// peer.
	Connected(ep E, earlier []E)
	// Settled is called when the handshake is over. If confirmed is true, the peer is known to
	// be connected. If unheard is true too, the peer dropped the packets sent before the peer
	// was connected.
	Settled(ep E, confirmed, unheard bool)
	// Restarted resets what is known from the peer's endpoint that ep was bound to.
	Restarted(ep E)
	// Supersede starts probes whether the peer's end of an old connection still exists.
	Supersede(old E)
	// Merge makes ep take over half's connection to the peer. No caller knows half.
	Merge(ep, half E)
	// End ends an endpoint with a reason.
	End(ep E, why Why, r frag.Reject)
	// SetTimer schedules a call of Handshakes.OnTimer, unless the endpoint is connected.
	SetTimer(ep E, after time.Duration)
	// Usable reports whether an endpoint is neither ended nor being closed.
	Usable(ep E) bool
	// Quiet is the time since the latest packet of the peer.
	Quiet(ep E) time.Duration
	// Heard notes a packet of the peer on a channel. Parameter answers of Heard is true if the
	// packet answers a probe of a connected endpoint.
	Heard(ep E, by frag.Probe, answers bool)
	// Early notes that an endpoint drops a packet, because it arrived before the handshake was
	// over.
	Early(ep E)
	// Takes notes that the peer has declared itself established.
	Takes(ep E)
}

// packets has the methods that send. A packet is lost if no buffer is free for it.
type packets[E any] interface {
	// SendHello sends a Hello or HelloAck through its channel, to address to, or to ep's peer
	// if to is nil.
	SendHello(ep E, kind frag.Kind, conn uint64, hello *frag.Hello, to []byte)
	// SendReject sends a Reject to an address through a channel.
	SendReject(by frag.Probe, to []byte, tag uint64, version uint8, r frag.Reject)
	// SendRetry sends the Retry that function retry makes, and reports whether the Retry was
	// sent.
	SendRetry(by frag.Probe, to []byte, tag uint64, retry func() *frag.Retry) bool
	// GiveUp cancels the sends that wait for an address which is about to be used again.
	GiveUp(name []byte)
}

// owner has the decisions that the owner makes.
type owner[E any] interface {
	// Ask asks the owner about a new peer. A Reject without a reason means that the peer is
	// accepted.
	Ask(hello *frag.Hello) frag.Reject
	// Shut reports whether no more endpoints may be made.
	Shut() bool
	// Full reports whether too many events wait for the owner to make another endpoint.
	Full() bool
	// AskSilent probes the silent endpoints for which holds returns true.
	AskSilent(holds func(E) bool)
}
