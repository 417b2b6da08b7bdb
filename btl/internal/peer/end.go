package peer

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/frag"
)

// Endings implements the end of endpoints.
type Endings struct{ *Services }

// byeDone ends an endpoint whose Bye was acknowledged or cannot be sent.
func (en Endings) byeDone(ep *Endpoint) {
	if ep.Err() == nil {
		en.End(ep, EventClosed, errs.ErrClosed)
	}
}

// End cancels everything that is in progress on an endpoint, and removes the endpoint from every
// table. All sends of the endpoint end with the error err.
func (en Endings) End(ep *Endpoint, ev Event, err error) {
	if ep.ID.State == stateEnded {
		return
	}
	if ep.ID.State == stateAccepting || ep.ID.State == StateLingering {
		if ep.Err() == nil {
			ep.needEnding().err = err
		}
	} else {
		en.fail(ep, ev, err)
	}
	en.remove(ep)
}

// remove frees the slot of an endpoint.
func (en Endings) remove(ep *Endpoint) {
	en.Dirty = true
	en.Sched.SetBlocked(false)
	en.Outbox.seekRoom()
	en.Acks.Settle(&ep.Rcv)
	if ep.Expects != nil {
		ep.Expects.End()
	}
	en.Timers.Watches.Clear(ep)
	en.returnCredits(ep)
	en.Peers.Remove(ep)
	cancelAt := en.Clock.Now
	if !errors.Is(ep.Err(), errs.ErrPeerDead) {
		cancelAt = cancelAt.Add(port.CancelAfter)
	}
	en.Port.RemoveLater(ep.cmdAddr, cancelAt)
	en.Port.RemoveLater(ep.dataAddr, cancelAt)
}

// fail ends everything that is in progress on an endpoint. All sends to the peer end with the error
// err.
func (en Endings) fail(ep *Endpoint, ev Event, err error) {
	if err == nil {
		err = errs.ErrClosed
	}
	ep.needEnding().err = err
	en.Sent.abandon(ep, err)
	en.Packs.failPack(ep, err)
	en.Sched.disarm(ep)
	en.failQueue(&ep.small.queue, err)
	en.failQueue(&ep.large.queue, err)
	en.failAsks(ep, err)
	if ep.ID.State != StateLingering {
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
	if errors.Is(err, errs.ErrClosed) {
		err = nil
	}
	en.Outbox.note(ep, ev, err)
	en.Flushes.failFlushes(ep)
	en.Dirty = true
}

func (en Endings) failQueue(q *fragmentList, err error) {
	for f := q.pop(); f != nil; f = q.pop() {
		if f.hasSeg {
			en.Recovery.Unqueue(f.seg)
		}
		if f.out == 0 {
			en.Sent.complete(f, err)
		} else { // the fabric still reads the fragment's memory
			f.Err, f.state = err, fragSent
		}
	}
}

// EndRestarted ends an endpoint and returns true if a Reject proves that the peer has restarted. A
// Reject proves a restart if it answers the AskLife probe and comes from the peer's address. If a
// packet of the peer's known incarnation has arrived after the AskLife probe was sent, the Reject
// does not prove a restart. The argument "source" of EndRestarted is the address of the sender of
// the Reject.
func (en Endings) EndRestarted(tag uint64, r frag.Reject, source []byte) bool {
	ep := en.Peers.Lookup(tag)
	if ep == nil || ep.ID.State != StateConnected || r.Reason != frag.RejectStale ||
		!ep.Life.AnswersLife(r.Nonce) || len(source) != 0 && string(source) != ep.ID.Addr {
		return false
	}
	en.End(ep, EventFailed, errs.ErrPeerRestarted)
	return true
}

// PeerClosed ends an endpoint whose peer has sent a Bye. For the time CloseTimeout, the endpoint
// still acknowledges retransmissions of the Bye.
func (en Endings) PeerClosed(ep *Endpoint) {
	err := errs.WhyEnded(ep.Bye.Code)
	if ep.Closing {
		err = errs.ErrClosed // both sides have closed at the same time
	}
	en.Peers.Linger(ep)
	en.fail(ep, EventClosed, err)
	en.returnCredits(ep)
	ep.Rcv.AskAck(en.Clock.Now, 0)
	en.Acks.Owe(&ep.Rcv, en.Clock.Now)
	en.Timers.Watches.Set(ep, en.Config.CloseTimeout)
}

// returnCredits returns the credits of an endpoint's peer to the pool, from which they can be
// granted to different peers.
func (en Endings) returnCredits(ep *Endpoint) {
	if ep.joined {
		ep.joined = false
		ep.Rcv.Leave(en.Credits)
		en.Credits.Leave()
	}
}

// EndTelling ends an endpoint as End does. If the peer possibly regards the connection as
// established, EndTelling first sends one Bye with an abort code.
func (en Endings) EndTelling(ep *Endpoint, code uint16, ev Event, err error) {
	if ep.Err() == nil && ep.mayBeConnectedThere() {
		en.Writer.sendLastWord(ep, code)
	}
	en.End(ep, ev, err)
}

// endDead ends an endpoint whose peer has not acknowledged a packet in time. If the path carries
// only packets below the base size of the path MTU search, the endpoint ends with ErrNarrow, and
// otherwise with ErrPeerDead.
func (en Endings) endDead(ep *Endpoint, v *liveness.Verdict) {
	if en.Timers.Paths.Narrow(ep, 0) {
		pathHost{en.Services}.EndNarrow(ep, ep.Path.Base)
		return
	}
	hint := "the program there ended, or is stuck in a handler"
	if !ep.ID.PeerBegan {
		hint += "; if a NAT gave it another address, dial it again"
	}
	en.EndTelling(ep, frag.ByeDead, EventFailed, fmt.Errorf("%w: %s", dead(v), hint))
}
