package btl

import (
	"errors"

	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/hotel"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

type endpointState uint8

const (
	stateConnecting endpointState = iota // opened here, handshake under way
	stateAccepting                       // opened by the peer, its address not proven yet
	stateConnected
	stateLingering // closed by the peer; only repeats its last ACK
	stateEnded
)

// Endpoint is the connection to one peer.
type Endpoint struct {
	// Context is the caller's.
	Context any

	m    *Module
	tag  uint64 // what the peer puts in its packets: random, the low bits are the slot
	slot uint32
	born uint64 // number of endpoints made before this one

	state      endpointState
	closing    bool // Close was called: a bye is queued, sent, or acknowledged
	ackOwed    bool
	joined     bool // has a share of the credits
	superseded bool // the peer has connected anew: ends with its bye, or if it does not answer
	asked      bool // whether it is there still, when superseded
	answered   bool // a question since
	byeSeen    bool
	byeSeq     seq.Num
	byeAhead   *Fragment    // the own bye, which has arrived before older packets
	ackLink    endpointLink // in Module.acks
	peerTag    uint64
	cmdAddr    fabric.Addr
	dataAddr   fabric.Addr
	snd        reliability.Sender
	rcv        reliability.Receiver
	small      flow // fragments of one packet that wait to be sent
	large      flow // and the others
	balance    int  // bytes that the small ones may be ahead of the others
	pack       openPack
	sentIn     uint64 // the module's period in which something was sealed last
	bursts     bool   // the latest pack had several records: the next message will not be alone
	asm        frag.Assembler
	link

	mtu          int // datagram sizes that both sides take
	tiny         int
	fragBytesMax uint32
	nextFragID   uint32
	buffers      int // send buffers lent, queued or in flight

	heardAt       Time // latest packet of the peer, on the axis of Module.nowUnpaused
	waitSince     Time // since when something has been in flight, likewise
	ackedAt       Time // when the window last moved, likewise
	closeAt       Time // since when a goodbye has been due, likewise
	silentResends int  // resends by time-out since heardAt, those shortly after another not counted
	silentAt      Time // when the latest of them was
	probes        int  // keep-alive questions since heardAt
	room          hotel.Room

	peer    peerTag // identity of the peer
	addrKey string  // its command endpoint's name
	// displaced is the endpoint of the same address that Module.byAddr held before Connect made this
	// one for another incarnation: ended when this one connects, back in its place when it does not.
	displaced *Endpoint
	hs        *handshake
	flushes   fifo[flush]
	err       error
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
func (ep *Endpoint) Connected() bool { return ep.state == stateConnected }

// Outstanding is the number of packets that the peer has not acknowledged, and of fragments that
// wait to be sent.
func (ep *Endpoint) Outstanding() (packets, fragments int) {
	return ep.snd.InFlight(),
		ep.small.queue.count + ep.large.queue.count + int(ep.pack.records)
}

// Path returns what is known of the path to the peer: round trip, window, packets in flight.
func (ep *Endpoint) Path() reliability.PathState { return ep.snd.Path() }

// MaxTiny is the largest fragment that takes the fast path to this peer.
func (ep *Endpoint) MaxTiny() int { return segmentRoom(ep.tiny, frag.KindFrag) }

// MTUBytes is the datagram size agreed with this peer.
func (ep *Endpoint) MTUBytes() int { return ep.mtu }

// Close closes the endpoint in order: what was sent is delivered first, then the peer is told, then
// EventClosed comes. It takes at most Config.CloseTimeout after the peer's last new ACK. Sends
// from then on fail with ErrClosed. now is the present instant.
func (ep *Endpoint) Close(now Time) {
	ep.m.at(now)
	if ep.err != nil || ep.closing {
		return
	}
	ep.closing = true
	m := ep.m
	if ep.state != stateConnected && !ep.waiting() {
		m.end(ep, EventClosed, ErrClosed)
		return
	}
	// The descriptor is not of the pool, which may be empty.
	bye := &Fragment{ep: ep, tag: frag.TagBye}
	ep.enqueue(bye)
	if ep.state == stateConnected {
		m.beginClose(ep)
	}
}

// beginClose has a goodbye that does not get on end, from now on.
func (m *Module) beginClose(ep *Endpoint) {
	ep.closeAt = m.nowUnpaused
	m.setTimer(ep, m.cfg.CloseTimeout)
}

// Abort ends the endpoint at once: unfinished sends fail with ErrClosed, the peer finds out by
// itself.
func (ep *Endpoint) Abort() {
	if ep.err == nil {
		ep.m.end(ep, EventClosed, ErrClosed)
	}
}

// byeDone ends an endpoint whose peer knows that it is closed, or cannot be told.
func (m *Module) byeDone(ep *Endpoint) {
	if ep.err == nil {
		m.end(ep, EventClosed, ErrClosed)
	}
}

// fail ends everything that is under way to a peer: sends complete with err, and nothing of the
// module refers to the endpoint but its slot.
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
	if ep.state != stateLingering {
		m.acks.settle(ep)
	}
	ep.asm.Drop()
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

// failQueue ends what waits to be sent to a peer that is gone.
func (m *Module) failQueue(q *fragmentList, err error) {
	for f := q.pop(); f != nil; f = q.pop() {
		if f.hasSeg {
			m.seg.Unqueue(f.seg)
		}
		if f.out == 0 {
			m.complete(f, err)
		} else { // the fabric still reads its memory
			f.err, f.state = err, fragSent
		}
	}
}

// failSeg books a segment in flight to a peer that is gone.
func (m *Module) failSeg(t reliability.Token, err error) {
	f, pack := m.segs[t].frag, m.segs[t].pack
	if pack {
		m.release(t)
		m.chainEnded(f, err)
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
	if ep.state == stateEnded {
		return
	}
	if ep.state == stateAccepting || ep.state == stateLingering {
		// The caller never heard of it, or has been told already.
		if ep.err == nil {
			ep.err = err
		}
	} else {
		m.fail(ep, ev, err)
	}
	m.remove(ep)
}

// remove frees the slot of an endpoint: from here on no packet finds it.
func (m *Module) remove(ep *Endpoint) {
	m.dirty = true
	m.sched.unblock()
	m.acks.settle(ep)
	m.clearTimer(ep)
	m.leave(ep)
	ep.state = stateEnded
	ep.hs = nil
	m.forgetPeer(ep)
	m.leaveAddrTo(ep)
	m.leaveAddr(ep.cmdAddr)
	m.leaveAddr(ep.dataAddr)
	m.vacate(ep)
}
