package btl

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
	"gobtl/reliability"
)

type endpointState = meet.State

const (
	stateConnecting = meet.Connecting
	stateAccepting  = meet.Accepting
	stateConnected  = meet.Connected
	stateLingering  = meet.Lingering
	stateEnded      = meet.Ended
)

// Endpoint is the connection to one peer.
type Endpoint struct {
	// Context is for the caller; the module does not use Context.
	Context any

	m       *Module
	id      meet.End[*Endpoint]
	err     error // why it ended
	joined  bool  // has a share of the credits
	closing bool  // Close was called: a Bye is queued, sent, or acknowledged
	route
	numbers numbers.Numbers // packet numbers
	snd     reliability.Sender
	rcv     ackDebt
	arriving
	link
	path  path.Path
	parts *frag.Parts // received slices of packets; nil before the first one
	sending
	life liveness.Watch
	goodbye
	flushes *flush.Queue[*Fragment] // calls of Flush and Fence; nil before the first one
	remote  *remote.Peer[*Fragment] // operations and answers; nil before the first one
}

// peerTable is the table of connections.
type peerTable = meet.Table[*Endpoint]

// endOf returns the part of an endpoint that the table of connections uses.
func endOf(ep *Endpoint) *meet.End[*Endpoint] { return &ep.id }

// arriving is an endpoint's state for fragments that arrive from the peer in chunks.
type arriving struct {
	asm      frag.Assembler
	expects  *landing.Expectation[*Endpoint] // the next expected chunk; nil before the first chunk
	goesOnAt Time                            // last progress, real or assumed (shed.go)
}

// route holds the peer's addresses and the packet sizes of the path to the peer.
type route struct {
	cmdAddr      fabric.Addr
	dataAddr     fabric.Addr
	mtu          int // largest datagram that is sent now
	tiny         int
	mtuMost      int // largest datagram that both sides accept
	tinyMost     int
	fragBytesMax uint32
}

// fragBytesUnknown is the value of fragBytesMax, the peer's maximum size of a fragment, before the
// peer has announced it.
const fragBytesUnknown = 1<<32 - 1

// agreeSizes sets the maximum sizes of packets and fragments to the peer, from this side's channels
// and the sizes that the peer has announced.
func (r *route) agreeSizes(own *port.Port, tinyBytes, mtuBytes int, fragBytesMax uint32) {
	r.tinyMost, r.mtuMost = min(own.Command.MTUBytes(), tinyBytes), min(own.Data.MTUBytes(), mtuBytes)
	r.fragBytesMax = fragBytesMax
	r.useSize(pathBase(r.mtuMost))
	if own.Reliable() { // unless the peer may not
		r.useSize(r.mtuMost)
	}
}

// addrOn returns the peer's fabric address on a channel.
func (r *route) addrOn(by via) fabric.Addr {
	if by == viaData {
		return r.dataAddr
	}
	return r.cmdAddr
}

// useSize sets the size of the largest datagram that is sent to the peer from now on.
func (r *route) useSize(mtuBytes int) { r.mtu, r.tiny = mtuBytes, min(r.tinyMost, mtuBytes) }

// goodbye is the state of a connection that closes in order, by this side, by the peer, or by both.
type goodbye struct {
	bye      inbound.Bye // of the peer
	byeAhead *Fragment   // own Bye, acknowledged before older packets
	closeAt  Time        // when Close took effect, on the axis of Clock.Unpaused
}

// usable returns nil if messages can be sent to the peer, and otherwise an error with the reason.
func (ep *Endpoint) usable() error {
	switch {
	case ep.err != nil:
		return ep.err
	case ep.closing:
		return ErrClosed
	}
	return nil
}

// Err returns the error with which the endpoint ended, such as ErrClosed, ErrPeerClosed,
// ErrPeerDead or ErrUnreachable. Before the endpoint has ended, Err returns nil.
func (ep *Endpoint) Err() error { return ep.err }

// Connected reports whether the handshake is complete and the endpoint has not ended.
func (ep *Endpoint) Connected() bool { return ep.id.State() == stateConnected }

// Outstanding returns the number of unacknowledged packets and the number of fragments that wait to
// be sent.
func (ep *Endpoint) Outstanding() (packets, fragments int) {
	return ep.snd.InFlight(),
		ep.small.queue.count + ep.large.queue.count + ep.pack.Records()
}

// MaxTiny is the size, in bytes, of the largest fragment that is sent to this peer on the command
// channel.
func (ep *Endpoint) MaxTiny() int { return segmentRoom(ep.tiny, frag.KindFrag) }

// MTUBytes is the size of the largest datagram that is now sent to this peer (see also Path).
func (ep *Endpoint) MTUBytes() int { return ep.mtu }

// Close closes the endpoint in order. After Close, all accepted fragments are delivered,
// then the peer is informed, and then this side gets EventClosed. Close ends at most
// Config.CloseTimeout after the peer's last new ACK. Sends after Close return ErrClosed.
// The argument now of Close is the present time.
func (ep *Endpoint) Close(now Time) { ep.close(now, frag.ByeClosed) }

// close queues a Bye with a code behind all fragments that wait to be sent.
func (ep *Endpoint) close(now Time, code uint16) {
	ep.m.at(now)
	if ep.err != nil || ep.closing {
		return
	}
	ep.closing = true
	m := ep.m
	if ep.id.State() != stateConnected && !ep.waiting() {
		m.end(ep, EventClosed, ErrClosed)
		return
	}
	// The descriptor of a Bye does not come from the pool, which may be empty.
	ep.enqueue(ep.newBye(code))
	if ep.id.State() == stateConnected {
		m.beginClose(ep)
	}
}

// beginClose starts the timer that ends the closing if the peer stops answering.
func (m *Module) beginClose(ep *Endpoint) {
	ep.closeAt = m.clock.Unpaused
	wait := m.cfg.CloseTimeout
	if ep.id.Handshake() != nil {
		wait = min(wait, ep.id.Handshake().Interval())
	}
	m.watches.Set(ep, wait)
}

// Abort ends the endpoint at once, and incomplete sends end with ErrClosed. Abort informs the peer
// with one packet, after which the peer's endpoint fails with an EndedError. If the packet of Abort
// is lost, the peer's timers detect the end of the connection.
func (ep *Endpoint) Abort() {
	ep.m.stir()
	if ep.err == nil {
		ep.m.endTelling(ep, frag.ByeAborted, EventClosed, ErrClosed)
	}
}
