package btl

import (
	"errors"

	"gobtl/btl/internal/flush"
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/path"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/remote"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// endpointState is the stage of a connection: see meet.State.
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
	// Context is the caller's.
	Context any

	m      *Module
	id     meet.End[*Endpoint]
	err    error // why it ended
	joined bool  // has a share of the credits
	route
	numbers numbers.Numbers // of its packets
	snd     reliability.Sender
	rcv     ackDebt
	arriving
	link
	path  path.Path
	parts *frag.Parts // that have come: nil before the first
	sending
	life liveness.Watch
	goodbye
	flushes *flush.Queue[*Fragment] // calls of Flush and Fence: nil until there is one
	remote  *remote.Peer[*Fragment] // operations and answers: nil until there is one
}

// peerTable is the table of connections.
type peerTable = meet.Table[*Endpoint]

// endOf is what the table knows of an endpoint.
func endOf(ep *Endpoint) *meet.End[*Endpoint] { return &ep.id }

// arriving is an endpoint's state of the fragments that it receives in chunks.
type arriving struct {
	asm      frag.Assembler
	expects  *expectation // which chunk is next; nil before there were any
	goesOnAt Time         // when its fragments went on, or would have: see shed.go
}

// route holds the peer's addresses and the packet sizes of the path to it.
type route struct {
	cmdAddr      fabric.Addr
	dataAddr     fabric.Addr
	mtu          int // datagrams that are sent now are no larger, and which take the command channel
	tiny         int
	mtuMost      int // datagram sizes that both sides take
	tinyMost     int
	fragBytesMax uint32
}

// fragBytesUnknown stands for the largest fragment that a peer takes until it says so.
const fragBytesUnknown = 1<<32 - 1

// agreeSizes sets the bounds of packets and fragments, from both sides' channels and the peer's
// announcement.
func (r *route) agreeSizes(own *port.Port, tinyBytes, mtuBytes int, fragBytesMax uint32) {
	r.tinyMost, r.mtuMost = min(own.Command.MTUBytes(), tinyBytes), min(own.Data.MTUBytes(), mtuBytes)
	r.fragBytesMax = fragBytesMax
	r.useSize(pathBase(r.mtuMost))
	if own.Reliable() { // unless the peer may not
		r.useSize(r.mtuMost)
	}
}

// addrOn is the peer's address on a channel.
func (r *route) addrOn(by via) fabric.Addr {
	if by == viaData {
		return r.dataAddr
	}
	return r.cmdAddr
}

// useSize sets the largest datagram that is sent from now on.
func (r *route) useSize(mtuBytes int) { r.mtu, r.tiny = mtuBytes, min(r.tinyMost, mtuBytes) }

// goodbye is the state of an orderly close, from either side.
type goodbye struct {
	closing  bool      // Close was called: a bye is queued, sent, or acknowledged
	byeSeen  bool      // the peer's has come
	byeCode  uint16    // with this reason
	byeSeq   seq.Num   // under this number
	byeAhead *Fragment // the own bye, which has arrived before older packets
	closeAt  Time      // since when the own has been due, on the axis of clock.nowUnpaused
}

// usable returns why nothing can be sent any more, nil if it can.
func (ep *Endpoint) usable() error {
	switch {
	case ep.err != nil:
		return ep.err
	case ep.closing:
		return ErrClosed
	}
	return nil
}

// Err returns why the endpoint ended: ErrClosed, ErrPeerClosed, ErrPeerDead, ErrUnreachable and so
// on; nil while it has not.
func (ep *Endpoint) Err() error { return ep.err }

// Connected says whether the handshake is done and the endpoint has not ended.
func (ep *Endpoint) Connected() bool { return ep.id.State() == stateConnected }

// Outstanding returns the number of unacknowledged packets and that of fragments queued to be sent.
func (ep *Endpoint) Outstanding() (packets, fragments int) {
	return ep.snd.InFlight(),
		ep.small.queue.count + ep.large.queue.count + int(ep.pack.records)
}

// MaxTiny is the largest fragment that takes the fast path to this peer.
func (ep *Endpoint) MaxTiny() int { return segmentRoom(ep.tiny, frag.KindFrag) }

// MTUBytes is the size of the largest datagram that is now sent to this peer: see Path for more.
func (ep *Endpoint) MTUBytes() int { return ep.mtu }

// Close closes the endpoint in order: sent fragments are delivered, then the peer is told, then
// EventClosed comes. It takes at most Config.CloseTimeout after the peer's last new ACK. Sends
// after Close fail with ErrClosed. now is the present instant.
func (ep *Endpoint) Close(now Time) { ep.close(now, frag.ByeClosed) }

// close queues a Bye with a code behind everything that waits.
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
	// The descriptor of a Bye is not from the pool, which may be empty.
	ep.enqueue(ep.newBye(code))
	if ep.id.State() == stateConnected {
		m.beginClose(ep)
	}
}

// beginClose starts the timer that ends a stalled close.
func (m *Module) beginClose(ep *Endpoint) {
	ep.closeAt = m.nowUnpaused
	wait := m.cfg.CloseTimeout
	if ep.id.Handshake() != nil {
		wait = min(wait, ep.id.Handshake().Interval())
	}
	m.watches.Set(ep, wait)
}

// Abort ends the endpoint at once: unfinished sends fail with ErrClosed. The peer is told once,
// which gives it an EndedError; if that packet is lost its timers detect the end.
func (ep *Endpoint) Abort() {
	ep.m.stir()
	if ep.err == nil {
		ep.m.endTelling(ep, frag.ByeAborted, EventClosed, ErrClosed)
	}
}

// byeDone ends an endpoint after its Bye is acknowledged, or if the peer cannot be told.
func (m *Module) byeDone(ep *Endpoint) {
	if ep.err == nil {
		m.end(ep, EventClosed, ErrClosed)
	}
}

// fail ends everything that is under way to a peer: sends complete with err, and afterwards only
// the endpoint's slot in the table refers to it.
func (m *Module) fail(ep *Endpoint, ev Event, err error) {
	if err == nil {
		err = ErrClosed
	}
	ep.err = err
	m.abandon(ep, err)
	m.failPack(ep, err)
	m.sched.disarm(ep)
	m.failQueue(&ep.small.queue, err)
	m.failQueue(&ep.large.queue, err)
	m.failAsks(ep, err)
	if ep.id.State() != stateLingering {
		m.acks.Settle(&ep.rcv)
	}
	ep.asm.Drop()
	m.paths.End(ep)
	if ep.parts != nil {
		ep.parts.Drop()
	}
	if ev == EventFailed {
		m.stats.counters[CntPeersFailed]++
	}
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	m.outbox.note(ep, ev, err)
	ep.failFlushes()
	m.dirty = true
}

// failQueue fails the queued fragments for a peer that is gone.
func (m *Module) failQueue(q *fragmentList, err error) {
	for f := q.pop(); f != nil; f = q.pop() {
		if f.hasSeg {
			m.recovery.Unqueue(f.seg)
		}
		if f.out == 0 {
			m.complete(f, err)
		} else { // the fabric still reads its memory
			f.err, f.state = err, fragSent
		}
	}
}

// failSeg fails a segment in flight to a peer that is gone.
func (m *Module) failSeg(t reliability.Token, err error) {
	f, begins, pack := m.segs[t].frag, m.segs[t].begins, m.segs[t].pack
	if pack {
		if begins != nil {
			begins.err = err
		}
		m.release(t)
		m.chainEnded(f, err)
		m.segEnded(begins)
		return
	}
	if f != nil {
		f.err = err
	}
	if m.keepGathered(t) {
		return
	}
	m.release(t)
	m.segEnded(f)
}

// end is fail, and removes the endpoint from every table.
func (m *Module) end(ep *Endpoint, ev Event, err error) {
	if ep.id.State() == stateEnded {
		return
	}
	if ep.id.State() == stateAccepting || ep.id.State() == stateLingering {
		// The caller never knew of this endpoint, or has been told of its end.
		if ep.err == nil {
			ep.err = err
		}
	} else {
		m.fail(ep, ev, err)
	}
	m.remove(ep)
}

// remove frees the slot of an endpoint: from then on no packet is matched to the endpoint.
func (m *Module) remove(ep *Endpoint) {
	m.dirty = true
	m.sched.unblock()
	m.acks.Settle(&ep.rcv)
	m.watches.Clear(ep)
	m.leave(ep)
	m.peers.Remove(ep)
	cancelAt := m.now
	if !errors.Is(ep.err, ErrPeerDead) {
		cancelAt = cancelAt.Add(port.CancelAfter)
	}
	m.port.Leave(ep.cmdAddr, cancelAt)
	m.port.Leave(ep.dataAddr, cancelAt)
}
