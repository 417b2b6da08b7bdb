package peer

import (
	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/flush"
	"gobtl/btl/internal/inbound"
	"gobtl/btl/internal/landing"
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/pmtu"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/probe"
	"gobtl/btl/internal/remote"
	"gobtl/btl/internal/sched"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/mono"
	"gobtl/reliability"
)

// The states of an endpoint.
const (
	stateConnecting = meet.Connecting
	stateAccepting  = meet.Accepting
	StateConnected  = meet.Connected
	StateLingering  = meet.Lingering
	stateEnded      = meet.Ended
)

// Endpoint is the state of the connection to one peer. Each public endpoint (of package btl)
// contains an Endpoint.
type Endpoint struct {
	All     *Services
	Owner   any // the owner's endpoint
	ID      meet.End[*Endpoint]
	Numbers numbers.Numbers // packet numbers
	route
	Snd reliability.Sender
	Rcv ackDebt
	arriving
	link
	Path  probe.Path
	Parts *frag.Parts // received slices of packets; nil before the first one
	sending
	Life    liveness.Watch
	Bye     inbound.Bye             // of the peer
	ending  *ending                 // nil before the first call of needEnding
	Flushes *flush.Queue[*Fragment] // calls of Flush and Fence; nil before the first one
	Remote  *remote.Peer[*Fragment] // operations and answers; nil before the first one
	// The small fields of Endpoint are adjacent, so that they take 8 bytes in total.
	joined  bool  // has a share of the credits
	Closing bool  // Close was called: a Bye is queued, sent, or acknowledged
	bursts  bool  // the latest Pack had several messages
	wants   wants // resources that a call has lacked
	urgent  sched.Urgent
}

// Init records the public Endpoint (of package btl) to which ep belongs.
func (ep *Endpoint) Init(owner any) { ep.Owner = owner }

// peerTable is the table of a module's connections.
type peerTable = meet.Table[*Endpoint]

// endOf returns the part of an endpoint that package meet uses in the table of connections.
func endOf(ep *Endpoint) *meet.End[*Endpoint] { return &ep.ID }

// arriving contains an endpoint's state for those fragments that arrive from the peer in chunks.
type arriving struct {
	Asm     frag.Assembler
	Expects *landing.Expectation[*Endpoint] // the next expected chunk; nil before the first chunk
	blocked *blocked                        // nil before the first lack of memory (shed.go)
}

// The type "route" contains the peer's addresses and the packet sizes of the path to the peer.
type route struct {
	cmdAddr      fabric.Addr
	dataAddr     fabric.Addr
	mtu          int32 // largest datagram that is sent now
	mtuMost      int32 // largest datagram that both sides accept
	tinyMost     int32 // largest datagram on the command channel that both sides accept
	FragBytesMax uint32
}

// fragBytesUnknown is the value of FragBytesMax until the peer has announced its maximum size of a
// fragment.
const fragBytesUnknown = 1<<32 - 1

// agreeSizes sets the maximum sizes of packets and fragments that are sent to the peer, from the
// limits of this side's channels and the limits that the peer has announced.
func (r *route) agreeSizes(own *port.Port, tinyBytes, mtuBytes int, fragBytesMax uint32) {
	r.tinyMost = int32(min(own.Command.MTUBytes, tinyBytes))
	r.mtuMost = int32(min(own.Data.MTUBytes, mtuBytes))
	r.FragBytesMax = fragBytesMax
	r.UseSize(min(int(r.mtuMost), pmtu.BaseBytes))
	if own.Reliable { // unless the peer may not
		r.UseSize(int(r.mtuMost))
	}
}

// addrOn returns the peer's fabric address on a channel.
func (r *route) addrOn(by via) fabric.Addr {
	if by == ViaData {
		return r.dataAddr
	}
	return r.cmdAddr
}

// UseSize sets the size of the largest datagram that this side may send to the peer.
func (r *route) UseSize(mtuBytes int) { r.mtu = int32(mtuBytes) }

// MTU returns the size of the largest datagram that is sent to the peer at present.
func (r *route) MTU() int { return int(r.mtu) }

// Tiny returns the size of the largest datagram that is sent to the peer on the command channel at
// present.
func (r *route) Tiny() int { return int(min(r.tinyMost, r.mtu)) }

// The type "ending" contains the state of an endpoint that is being closed by this side, or that
// has ended.
type ending struct {
	err      error     // why it ended
	byeAhead *Fragment // this side's Bye, acknowledged before older packets
	closeAt  mono.Time // when Close took effect, as a time of Clock.Unpaused
}

// needEnding returns the state of an endpoint that is closing or has ended. The first call of
// needEnding allocates the state of the ending endpoint.
func (ep *Endpoint) needEnding() *ending {
	if ep.ending == nil {
		ep.ending = new(ending)
	}
	return ep.ending
}

// Err returns the reason why the endpoint has ended, or nil if the endpoint has not ended.
func (ep *Endpoint) Err() error {
	if ep.ending == nil {
		return nil
	}
	return ep.ending.err
}

// closeAt returns the time when Close took effect, or 0 if Close has not taken effect.
func (ep *Endpoint) closeAt() mono.Time {
	if ep.ending == nil {
		return 0
	}
	return ep.ending.closeAt
}

// usable returns nil if messages can be sent to the peer, and otherwise an error that says why not.
func (ep *Endpoint) usable() error {
	switch {
	case ep.Err() != nil:
		return ep.Err()
	case ep.Closing:
		return errs.ErrClosed
	}
	return nil
}

// Outstanding returns the number of unacknowledged packets and the number of fragments that wait to
// be sent.
func (ep *Endpoint) Outstanding() (packets, fragments int) {
	return ep.Snd.InFlight(),
		ep.small.queue.count + ep.large.queue.count + ep.pack.Records()
}

// MaxTiny returns the size, in bytes, of the largest fragment that is sent to the peer on the
// command channel.
func (ep *Endpoint) MaxTiny() int { return segmentRoom(ep.Tiny(), frag.KindFrag) }

// Close queues a Bye with the given code after all fragments that wait to be sent.
func (en Endings) Close(ep *Endpoint, now mono.Time, code uint16) {
	en.At(now)
	if ep.Err() != nil || ep.Closing {
		return
	}
	ep.Closing = true
	if ep.ID.State != StateConnected && !ep.waiting() {
		en.End(ep, EventClosed, errs.ErrClosed)
		return
	}
	// The descriptor of a Bye is not taken from the pool, because the pool can be empty.
	en.Sender.enqueue(ep, ep.newBye(code))
	if ep.ID.State == StateConnected {
		en.beginClose(ep)
	}
}

// beginClose starts the timer that ends the endpoint if the peer stops acknowledging packets during
// the close.
func (en Endings) beginClose(ep *Endpoint) {
	ep.needEnding().closeAt = en.Clock.Unpaused
	wait := en.Config.CloseTimeout
	if ep.ID.Handshake != nil {
		wait = min(wait, ep.ID.Handshake.Interval)
	}
	en.Timers.Watches.Set(ep, wait)
}

// Abort does the work of btl.Endpoint.Abort.
func (en Endings) Abort(ep *Endpoint) {
	en.Rest.Stir()
	if ep.Err() == nil {
		en.EndTelling(ep, frag.ByeAborted, EventClosed, errs.ErrClosed)
	}
}

// Expected returns the endpoint's landing.Expectation (the next expected chunk). The first call of
// Expected allocates the Expectation. The argument "lands" of Expected says whether direct receive
// (of chunks into their destination memory) is possible for the endpoint. Expected returns nil
// until the first call with "lands" true.
func (ep *Endpoint) Expected(lands bool) *landing.Expectation[*Endpoint] {
	if ep.Expects == nil && lands {
		ep.Expects = landing.New(ep, &ep.Asm, ep.ID.Counted)
	}
	return ep.Expects
}
