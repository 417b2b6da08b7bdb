package btl

import (
	"errors"

	"gobtl/btl/internal/flush"
	"gobtl/internal/seq"
)

// flushQueue is the endpoint's pending calls of Flush and Fence, made when there is the first.
func (ep *Endpoint) flushQueue() *flush.Queue[*Fragment] {
	if ep.flushes == nil {
		ep.flushes = new(flush.Queue[*Fragment])
	}
	return ep.flushes
}

// Refused returns the number of messages that the peer refused after Send or SendImmediate reported
// them done, and the latest reason: ErrNoHandler, ErrRemoteAccess. A Flush after such a message
// returns that too. Over a reliable fabric the peer may report refusals only at a flush, or when it
// renews the credits.
func (ep *Endpoint) Refused() (messages uint64, last error) { return ep.flushes.Refusals() }

// Flush calls fn, if not nil, from Progress when everything sent to the endpoint so far is
// acknowledged. fn gets ErrNoHandler or ErrRemoteAccess if the peer refused messages after Send
// returned Done (see Refused), or another error if the endpoint ends first. now is the present
// instant.
func (ep *Endpoint) Flush(now Time, fn func(error)) {
	ep.m.at(now)
	if ep.err != nil {
		if ep.m.outbox.pulled {
			ep.m.outbox.noteFlush(ep, fn, ep.err)
			return
		}
		if fn != nil {
			fn(ep.err)
		}
		return
	}
	sent := ep.sealForFlush()
	ep.flushQueue().Add(fn, ep.lastQueued(), sent, ep.pack.open())
	ep.checkFlushed()
	ep.m.askFlush(ep)
}

// Fence orders sends to the peer: fragments given to Send from now on leave only after all earlier
// ones are done. A message is done when it is acknowledged, a put when its bytes are in place, a
// get or atomic operation when its answer has arrived. Fence does not block; until the earlier
// fragments are done SendImmediate returns ErrAgain. Without a fence, operations and messages may
// overtake each other. now is the present instant.
func (ep *Endpoint) Fence(now Time) {
	ep.m.at(now)
	if ep.err != nil {
		return
	}
	sent := ep.sealForFlush()
	ep.flushQueue().Fence(ep.lastQueued(), sent, ep.pack.open())
	ep.checkFlushed()
	ep.m.askFlush(ep)
	ep.m.sched.rearm(ep)
}

// sealForFlush seals the open pack, so that it holds nothing of what follows, and returns the
// number after all that was sent.
func (ep *Endpoint) sealForFlush() seq.Num {
	if ep.pack.open() && ep.id.State() == stateConnected {
		ep.m.overtook(ep, ep.m.sealPack(ep))
	}
	return ep.sentUntil()
}

// noteUntold records the loss of an accepted message that has no OnDone to report it. The next
// Flush returns the error; on an ended endpoint every Flush does.
func (ep *Endpoint) noteUntold(err error) {
	if ep.err == nil {
		ep.flushQueue().Lost(err)
	}
}

// lastQueued returns the last fragment of each queue of the endpoint.
func (ep *Endpoint) lastQueued() flush.Tails[*Fragment] {
	return flush.Tails[*Fragment]{ep.small.queue.last, ep.large.queue.last}
}

// sentUntil is the sequence number after all sent packets and the open pack, if there is one.
func (ep *Endpoint) sentUntil() seq.Num {
	_, next := ep.snd.Window()
	if ep.pack.open() {
		next++
	}
	return next
}

// markFlush gives the flushes that wait for a fragment, whose last packet was sent, the number
// after it.
func (ep *Endpoint) markFlush(f *Fragment) {
	if ep.flushes.Len() == 0 {
		return
	}
	k := 0
	if f.large {
		k = 1
	}
	until := ep.sentUntil()
	if ep.flushes.Sent(f, k, until) && !ep.id.Counted {
		ep.m.askAck(ep, until-1)
	}
}

// checkFlushed completes the flushes whose numbers are acknowledged.
func (ep *Endpoint) checkFlushed() {
	if ep.flushes.Len() == 0 {
		return
	}
	oldest, _ := ep.snd.Window()
	for {
		d, ok := ep.flushes.Next(oldest, ep.remote.Waiting() > 0)
		switch {
		case !ok:
			return
		case d.Fence:
			ep.m.sched.rearm(ep)
		default:
			ep.m.outbox.noteFlush(ep, d.Fn, d.Err)
		}
	}
}

// failFlushes fails the pending flushes of an endpoint that has ended.
func (ep *Endpoint) failFlushes() {
	for d, ok := ep.flushes.Fail(); ok; d, ok = ep.flushes.Fail() {
		if !d.Fence {
			ep.m.outbox.noteFlush(ep, d.Fn, ep.err)
		}
	}
}

// behindFence says whether a fragment has to wait for an earlier fence.
func (ep *Endpoint) behindFence(f *Fragment) bool { return ep.flushes.Behind(f.fence) }

// pushAnswer adds an answer to a queue, ahead of fragments that wait for a fence: a fence of the
// peer's may wait for this answer.
func (ep *Endpoint) pushAnswer(q *fragmentList, f *Fragment) {
	if f.fence = ep.flushes.Met(); q.last == nil || !ep.behindFence(q.last) {
		q.push(f)
		return
	}
	var behind *Fragment
	for l := q.first; !ep.behindFence(l); l = l.next {
		behind = l
	}
	q.insert(f, behind)
}

// lastBefore returns, for each of the endpoint's queues, the last fragment with at most that many
// fences before it.
func (ep *Endpoint) lastBefore(fences uint32) (last flush.Tails[*Fragment]) {
	for k, q := range [...]*fragmentList{&ep.small.queue, &ep.large.queue} {
		for f := q.first; f != nil && int32(f.fence-fences) <= 0; f = f.next {
			last[k] = f
		}
	}
	return last
}

// checkFlushes verifies that no call of Flush is forgotten.
func (ep *Endpoint) checkFlushes() error {
	if ep.err != nil && ep.flushes.Len() > 0 {
		return errors.New("flushes are due and will not be called")
	}
	oldest, _ := ep.snd.Window()
	return ep.flushes.Check(oldest, ep.sentUntil(), ep.remote.Waiting() > 0,
		func(f *Fragment) bool { return f.state == fragQueued && f.ep == ep })
}
