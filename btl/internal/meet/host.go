package meet

import (
	"time"

	"gobtl/frag"
)

// Why says why Handshakes ends an endpoint.
type Why uint8

// The reasons. After each but MadeRoom the endpoint has failed.
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

// Host carries out what Handshakes decides about endpoints. Handshakes calls it from its own
// methods. Host may call the Table and the endpoint's End meanwhile, and Handshakes only where that
// is said.
type Host[E any] interface {
	clock
	endpoints[E]
	packets[E]
	owner[E]
}

// clock is what time it is.
type clock interface {
	// Now is the present instant, on the axis on which no time passes while the owner is stopped.
	Now() Time
	// Pass is the number of the pass.
	Pass() uint64
}

// endpoints is what happens to endpoints.
type endpoints[E any] interface {
	// Make makes an endpoint for a peer's addresses and has Enter give it a place. Datagrams to it
	// are at most so large.
	Make(cmd, data []byte, tinyBytes, mtuBytes int) (E, error)
	// Adopt has a half-open endpoint use another address for its data channel, with the sizes of a
	// name, or those that it has if there is none. Nothing else that a Hello has said is kept.
	Adopt(ep E, data []byte, named *frag.Name) error
	// Bind takes over what a Hello says of the peer's windows and sizes; the Agreement is set.
	Bind(ep E, h *frag.Header, hello *frag.Hello)
	// Connected begins the work of an endpoint, whether or not the peer knows that it is connected.
	// The endpoints of earlier lives of the peer end.
	Connected(ep E, earlier []E)
	// Settled goes on when the handshake is over. If confirmed is set the peer is known to be
	// connected; if unheard is set too, the peer did not take what was sent before that.
	Settled(ep E, confirmed, unheard bool)
	// Restarted forgets what the end of the peer has said with which the endpoint dealt.
	Restarted(ep E)
	// Supersede has a connection's peer asked whether its end is there still.
	Supersede(old E)
	// Merge makes an endpoint continue what half, which no caller knows, was to the peer.
	Merge(ep, half E)
	// End ends an endpoint.
	End(ep E, why Why, r frag.Reject)
	// SetTimer has Handshakes.OnTimer called after a time, unless the endpoint is connected.
	SetTimer(ep E, after time.Duration)
	// Usable says whether an endpoint is neither ended nor being closed.
	Usable(ep E) bool
	// Quiet is the time since anything was heard of the peer.
	Quiet(ep E) time.Duration
	// Heard notes a packet of the peer by a channel; answers says that it answers a question of a
	// connected endpoint.
	Heard(ep E, by frag.Probe, answers bool)
	// Early notes that a packet came too early for an endpoint, which drops it.
	Early(ep E)
	// Takes notes that the peer says that it is established.
	Takes(ep E)
}

// packets is what is sent. Each is sent if there is room, or is lost.
type packets[E any] interface {
	// SendHello sends a Hello or HelloAck by its channel: to the endpoint's peer, or to an address.
	SendHello(ep E, kind frag.Kind, conn uint64, hello *frag.Hello, to []byte)
	// SendReject sends a Reject to an address by a channel.
	SendReject(by frag.Probe, to []byte, tag uint64, version uint8, r frag.Reject)
	// SendRetry sends a Retry to an address by its channel, and says whether it did; retry makes it.
	SendRetry(by frag.Probe, to []byte, tag uint64, retry func() *frag.Retry) bool
	// GiveUp cancels what waits to be sent to an address that is about to be used again.
	GiveUp(name []byte)
}

// owner is what the owner decides.
type owner[E any] interface {
	// Ask asks the owner about a new peer; a Reject without a reason accepts it.
	Ask(hello *frag.Hello) frag.Reject
	// Shut says whether no endpoint may be made any more.
	Shut() bool
	// Full says whether the owner is to be told too much for another endpoint.
	Full() bool
	// AskSilent has the silent ones among some endpoints asked for a sign of life.
	AskSilent(holds func(E) bool)
}
