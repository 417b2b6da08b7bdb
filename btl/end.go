package btl

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/port"
	"gobtl/frag"
	"gobtl/reliability"
)

// byeDone ends an endpoint whose Bye is acknowledged, or whose Bye cannot be sent.
func (m *Module) byeDone(ep *Endpoint) {
	if ep.err == nil {
		m.end(ep, EventClosed, ErrClosed)
	}
}

// end cancels everything in progress on an endpoint, as fail does, and removes the endpoint from
// every table.
func (m *Module) end(ep *Endpoint, ev Event, err error) {
	if ep.id.State() == stateEnded {
		return
	}
	if ep.id.State() == stateAccepting || ep.id.State() == stateLingering {
		if ep.err == nil {
			ep.err = err
		}
	} else {
		m.fail(ep, ev, err)
	}
	m.remove(ep)
}

// remove frees the slot of an endpoint.
func (m *Module) remove(ep *Endpoint) {
	m.dirty = true
	m.sched.SetBlocked(false)
	m.acks.Settle(&ep.rcv)
	if ep.expects != nil {
		ep.expects.End()
	}
	m.watches.Clear(ep)
	m.leave(ep)
	m.peers.Remove(ep)
	cancelAt := m.clock.Now
	if !errors.Is(ep.err, ErrPeerDead) {
		cancelAt = cancelAt.Add(port.CancelAfter)
	}
	m.port.Leave(ep.cmdAddr, cancelAt)
	m.port.Leave(ep.dataAddr, cancelAt)
}

// fail ends everything that is in progress on an endpoint. All sends to the peer end with err.
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

func (m *Module) failQueue(q *fragmentList, err error) {
	for f := q.pop(); f != nil; f = q.pop() {
		if f.hasSeg {
			m.recovery.Unqueue(f.seg)
		}
		if f.out == 0 {
			m.complete(f, err)
		} else { // the fabric still reads the fragment's memory
			f.err, f.state = err, fragSent
		}
	}
}

// failSeg ends a packet in flight, with err for its fragments, because the endpoint has ended.
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

// endRestarted ends an endpoint whose peer has restarted. endRestarted returns true if the
// restart is proven. A restart is proven by a Reject that answers the AskLife probe and
// comes from the peer's address. The restart is not proven if a packet of the peer's known
// incarnation has arrived after the AskLife probe was sent. The argument source of
// endRestarted is the address of the sender of the Reject.
func (m *Module) endRestarted(tag uint64, r frag.Reject, source []byte) bool {
	ep := m.peers.Lookup(tag)
	if ep == nil || ep.id.State() != stateConnected || r.Reason != frag.RejectStale ||
		!ep.life.AnswersLife(r.Nonce) || len(source) != 0 && string(source) != ep.id.Addr {
		return false
	}
	m.end(ep, EventFailed, ErrPeerRestarted)
	return true
}

// peerClosed ends an endpoint whose peer has sent a Bye. The endpoint lingers for CloseTimeout, to
// acknowledge retransmissions of the Bye.
func (m *Module) peerClosed(ep *Endpoint) {
	err := whyEnded(ep.bye.Code())
	if ep.closing {
		err = ErrClosed // the two ends have closed at the same time
	}
	m.peers.Linger(ep)
	m.fail(ep, EventClosed, err)
	m.leave(ep)
	ep.rcv.AskAck(m.clock.Now, 0)
	m.acks.Owe(&ep.rcv, m.clock.Now)
	m.watches.Set(ep, m.cfg.CloseTimeout)
}

// leave makes the receive credits of an endpoint available to other endpoints.
func (m *Module) leave(ep *Endpoint) {
	if ep.joined {
		ep.joined = false
		ep.rcv.Leave(m.credits)
		m.credits.Leave()
	}
}

// endTelling ends an endpoint like end, and sends one Bye with an abort code if the peer may be
// connected.
func (m *Module) endTelling(ep *Endpoint, code uint16, ev Event, err error) {
	if ep.err == nil && ep.mayBeConnectedThere() {
		m.sendLastWord(ep, code)
	}
	m.end(ep, ev, err)
}

// endDead ends an endpoint whose peer has not acknowledged a packet in time. The error of the ended
// endpoint is ErrNarrow if the path carries small packets but no larger ones, and otherwise
// ErrPeerDead.
func (m *Module) endDead(ep *Endpoint, v *liveness.Verdict) {
	if !ep.id.Counted && m.paths.Narrow(ep, 0) {
		pathHost{m}.EndNarrow(ep, ep.path.Base())
		return
	}
	m.endTelling(ep, frag.ByeDead, EventFailed, fmt.Errorf(
		"%w; if a NAT gave it another address, dial it again", dead(v)))
}
