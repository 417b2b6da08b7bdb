package peer

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/frag"
	"gobtl/reliability"
)

// Endings ends endpoints.
type Endings struct{ *Services }

// ByeDone ends an endpoint whose Bye is acknowledged, or whose Bye cannot be sent.
func (en *Endings) ByeDone(ep *Endpoint) {
	if ep.err == nil {
		en.End(ep, EventClosed, ErrClosed)
	}
}

// End cancels everything in progress on an endpoint, as fail does, and removes the endpoint from
// every table.
func (en *Endings) End(ep *Endpoint, ev Event, err error) {
	if ep.ID.State() == StateEnded {
		return
	}
	if ep.ID.State() == StateAccepting || ep.ID.State() == StateLingering {
		if ep.err == nil {
			ep.err = err
		}
	} else {
		en.fail(ep, ev, err)
	}
	en.remove(ep)
}

// remove frees the slot of an endpoint.
func (en *Endings) remove(ep *Endpoint) {
	en.dirty = true
	en.Sched.SetBlocked(false)
	en.Acks.Settle(&ep.Rcv)
	if ep.Expects != nil {
		ep.Expects.End()
	}
	en.Timers.Watches.Clear(ep)
	en.leave(ep)
	en.Peers.Remove(ep)
	cancelAt := en.Clock.Now
	if !errors.Is(ep.err, ErrPeerDead) {
		cancelAt = cancelAt.Add(port.CancelAfter)
	}
	en.Port.Leave(ep.CmdAddr, cancelAt)
	en.Port.Leave(ep.DataAddr, cancelAt)
}

// fail ends everything that is in progress on an endpoint. All sends to the peer end with err.
func (en *Endings) fail(ep *Endpoint, ev Event, err error) {
	if err == nil {
		err = ErrClosed
	}
	ep.err = err
	en.Sent.abandon(ep, err)
	en.Packs.failPack(ep, err)
	en.Sched.disarm(ep)
	en.failQueue(&ep.Small.Queue, err)
	en.failQueue(&ep.Large.Queue, err)
	en.failAsks(ep, err)
	if ep.ID.State() != StateLingering {
		en.Acks.Settle(&ep.Rcv)
	}
	ep.Asm.Drop()
	en.Timers.Paths.End(ep)
	if ep.Parts != nil {
		ep.Parts.Drop()
	}
	if ev == EventFailed {
		en.Count[stats.CntPeersFailed]++
	}
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	en.Outbox.Note(ep, ev, err)
	en.Flushes.failFlushes(ep)
	en.dirty = true
}

func (en *Endings) failQueue(q *FragmentList, err error) {
	for f := q.Pop(); f != nil; f = q.Pop() {
		if f.hasSeg {
			en.Recovery.Unqueue(f.Seg)
		}
		if f.Out == 0 {
			en.Sent.complete(f, err)
		} else { // the fabric still reads the fragment's memory
			f.Err, f.State = err, FragSent
		}
	}
}

// failSeg ends a packet in flight, with err for its fragments, because the endpoint has ended.
func (st *Sent) failSeg(t reliability.Token, err error) {
	f, begins, pack := st.Buffers.Segs[t].Frag, st.Buffers.Segs[t].begins, st.Buffers.Segs[t].pack
	if pack {
		if begins != nil {
			begins.Err = err
		}
		st.Buffers.release(t)
		st.chainEnded(f, err)
		st.SegEnded(begins)
		return
	}
	if f != nil {
		f.Err = err
	}
	if st.Buffers.keepGathered(t) {
		return
	}
	st.Buffers.release(t)
	st.SegEnded(f)
}

// EndRestarted ends an endpoint whose peer has restarted. EndRestarted returns false, and does
// nothing, if the Reject does not prove a restart. A Reject proves a restart if it answers the
// AskLife probe and comes from the peer's address, unless a packet of the peer's known incarnation
// has arrived after the AskLife probe was sent. The argument source of EndRestarted is the address
// of the sender of the Reject.
func (en *Endings) EndRestarted(tag uint64, r frag.Reject, source []byte) bool {
	ep := en.Peers.Lookup(tag)
	if ep == nil || ep.ID.State() != StateConnected || r.Reason != frag.RejectStale ||
		!ep.Life.AnswersLife(r.Nonce) || len(source) != 0 && string(source) != ep.ID.Addr {
		return false
	}
	en.End(ep, EventFailed, ErrPeerRestarted)
	return true
}

// PeerClosed ends an endpoint whose peer has sent a Bye. The endpoint lingers for CloseTimeout, to
// acknowledge retransmissions of the Bye.
func (en *Endings) PeerClosed(ep *Endpoint) {
	err := WhyEnded(ep.Bye.Code())
	if ep.Closing {
		err = ErrClosed // both sides have closed at the same time
	}
	en.Peers.Linger(ep)
	en.fail(ep, EventClosed, err)
	en.leave(ep)
	ep.Rcv.AskAck(en.Clock.Now, 0)
	en.Acks.Owe(&ep.Rcv, en.Clock.Now)
	en.Timers.Watches.Set(ep, en.Config.CloseTimeout)
}

// leave makes the receive credits of an endpoint available to other endpoints.
func (en *Endings) leave(ep *Endpoint) {
	if ep.Joined {
		ep.Joined = false
		ep.Rcv.Leave(en.Credits)
		en.Credits.Leave()
	}
}

// EndTelling ends an endpoint like end, and sends one Bye with an abort code if the peer may be
// connected.
func (en *Endings) EndTelling(ep *Endpoint, code uint16, ev Event, err error) {
	if ep.err == nil && ep.mayBeConnectedThere() {
		en.Writer.sendLastWord(ep, code)
	}
	en.End(ep, ev, err)
}

// endDead ends an endpoint whose peer has not acknowledged a packet in time. The error of the ended
// endpoint is ErrNarrow if the path carries small packets but no larger packets, and otherwise
// ErrPeerDead.
func (en *Endings) endDead(ep *Endpoint, v *liveness.Verdict) {
	if !ep.ID.Counted && en.Timers.Paths.Narrow(ep, 0) {
		pathHost{en.Services}.EndNarrow(ep, ep.Path.Base())
		return
	}
	en.EndTelling(ep, frag.ByeDead, EventFailed, fmt.Errorf(
		"%w; if a NAT gave it another address, dial it again", dead(v)))
}
