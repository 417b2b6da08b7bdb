package peer

import (
	"gobtl/btl/internal/flush"
	"gobtl/btl/internal/inbound"
	"gobtl/btl/internal/landing"
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/path"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/remote"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/mono"
	"gobtl/reliability"
)

// EndpointState is the state of an endpoint.
type EndpointState = meet.State

// The states of an endpoint.
const (
	stateConnecting = meet.Connecting
	StateAccepting  = meet.Accepting
	StateConnected  = meet.Connected
	StateLingering  = meet.Lingering
	StateEnded      = meet.Ended
)

// Endpoint is the state of the connection to one peer. The owner's endpoint contains the Endpoint.
type Endpoint struct {
	all     *Services
	owner   any // the owner's endpoint
	ID      meet.End[*Endpoint]
	err     error // why it ended
	Joined  bool  // has a share of the credits
	Closing bool  // Close was called: a Bye is queued, sent, or acknowledged
	route
	Numbers numbers.Numbers // packet numbers
	Snd     reliability.Sender
	Rcv     ackDebt
	arriving
	link
	Path  path.Path
	Parts *frag.Parts // received slices of packets; nil before the first one
	sending
	Life liveness.Watch
	goodbye
	Flushes *flush.Queue[*Fragment] // calls of Flush and Fence; nil before the first one
	Remote  *remote.Peer[*Fragment] // operations and answers; nil before the first one
}

// Init makes a new endpoint a part of the owner's endpoint.
func (ep *Endpoint) Init(owner any) { ep.owner = owner }

// Owner returns the argument of Init.
func (ep *Endpoint) Owner() any { return ep.owner }

// All returns the services of the endpoint's module.
func (ep *Endpoint) All() *Services { return ep.all }

// peerTable is the table of connections.
type peerTable = meet.Table[*Endpoint]

// endOf returns the part of an endpoint that the table of connections uses.
func endOf(ep *Endpoint) *meet.End[*Endpoint] { return &ep.ID }

// arriving is an endpoint's state for fragments that arrive from the peer in chunks.
type arriving struct {
	Asm      frag.Assembler
	Expects  *landing.Expectation[*Endpoint] // the next expected chunk; nil before the first chunk
	goesOnAt mono.Time                       // last progress, real or assumed (shed.go)
}

// route holds the peer's addresses and the packet sizes of the path to the peer.
type route struct {
	CmdAddr      fabric.Addr
	DataAddr     fabric.Addr
	MTU          int // largest datagram that is sent now
	Tiny         int
	MTUMost      int32 // largest datagram that both sides accept
	tinyMost     int32
	FragBytesMax uint32
}

// fragBytesUnknown is the value of fragBytesMax, the peer's maximum size of a fragment, before the
// peer has announced it.
const fragBytesUnknown = 1<<32 - 1

// agreeSizes sets the maximum sizes of packets and fragments to the peer, from this side's channels
// and the sizes that the peer has announced.
func (r *route) agreeSizes(own *port.Port, tinyBytes, mtuBytes int, fragBytesMax uint32) {
	r.tinyMost = int32(min(own.Command.MTUBytes(), tinyBytes))
	r.MTUMost = int32(min(own.Data.MTUBytes(), mtuBytes))
	r.FragBytesMax = fragBytesMax
	r.UseSize(pathBase(int(r.MTUMost)))
	if own.Reliable() { // unless the peer may not
		r.UseSize(int(r.MTUMost))
	}
}

// addrOn returns the peer's fabric address on a channel.
func (r *route) addrOn(by via) fabric.Addr {
	if by == ViaData {
		return r.DataAddr
	}
	return r.CmdAddr
}

// UseSize sets the size of the largest datagram that is sent to the peer from now on.
func (r *route) UseSize(mtuBytes int) { r.MTU, r.Tiny = mtuBytes, min(int(r.tinyMost), mtuBytes) }

// goodbye is the state of a connection that is being closed with a Bye, by this side, by the peer,
// or by both.
type goodbye struct {
	Bye      inbound.Bye // of the peer
	byeAhead *Fragment   // own Bye, acknowledged before older packets
	closeAt  mono.Time   // when Close took effect, on the axis of Clock.Unpaused
}

// Usable returns nil if messages can be sent to the peer, and otherwise an error with the reason.
func (ep *Endpoint) Usable() error {
	switch {
	case ep.err != nil:
		return ep.err
	case ep.Closing:
		return ErrClosed
	}
	return nil
}

// Err does the work of btl.Endpoint.Err.
func (ep *Endpoint) Err() error { return ep.err }

// SetErr lets a test set the error with which the endpoint has ended.
func (ep *Endpoint) SetErr(err error) { ep.err = err }

// Outstanding returns the number of unacknowledged packets and the number of fragments that wait to
// be sent.
func (ep *Endpoint) Outstanding() (packets, fragments int) {
	return ep.Snd.InFlight(),
		ep.Small.Queue.Count + ep.Large.Queue.Count + ep.Pack.Records()
}

// MaxTiny is the size, in bytes, of the largest fragment that is sent to this peer on the command
// channel.
func (ep *Endpoint) MaxTiny() int { return segmentRoom(ep.Tiny, frag.KindFrag) }

// Close queues a Bye with a code behind all fragments that wait to be sent.
func (en *Endings) Close(ep *Endpoint, now mono.Time, code uint16) {
	en.At(now)
	if ep.err != nil || ep.Closing {
		return
	}
	ep.Closing = true
	if ep.ID.State() != StateConnected && !ep.Waiting() {
		en.End(ep, EventClosed, ErrClosed)
		return
	}
	// The descriptor of a Bye does not come from the pool, which may be empty.
	en.Sender.Enqueue(ep, ep.newBye(code))
	if ep.ID.State() == StateConnected {
		en.beginClose(ep)
	}
}

// beginClose starts the timer that ends the closing if the peer stops answering.
func (en *Endings) beginClose(ep *Endpoint) {
	ep.closeAt = en.Clock.Unpaused
	wait := en.Config.CloseTimeout
	if ep.ID.Handshake() != nil {
		wait = min(wait, ep.ID.Handshake().Interval())
	}
	en.Timers.Watches.Set(ep, wait)
}

// Abort does the work of btl.Endpoint.Abort.
func (en *Endings) Abort(ep *Endpoint) {
	en.Rest.Stir()
	if ep.err == nil {
		en.EndTelling(ep, frag.ByeAborted, EventClosed, ErrClosed)
	}
}

// Expected returns the endpoint's expectation of the next chunk, which the first call allocates.
// The result is nil if chunks of this endpoint cannot be received directly, so that lands is false.
func (ep *Endpoint) Expected(lands bool) *landing.Expectation[*Endpoint] {
	if ep.Expects == nil && lands {
		ep.Expects = landing.New(ep, &ep.Asm, ep.ID.Counted)
	}
	return ep.Expects
}
