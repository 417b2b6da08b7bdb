package btl

import (
	"errors"

	"gobtl/btl/internal/flush"
	"gobtl/internal/seq"
)

// flushQueue returns the queue of the endpoint's pending calls of Flush and Fence, and makes the
// queue if necessary.
func (ep *Endpoint) flushQueue() *flush.Queue[*Fragment] {
	if ep.flushes == nil {
		ep.flushes = new(flush.Queue[*Fragment])
	}
	return ep.flushes
}

// Refused returns the number of messages that the peer has refused after Send or
// SendImmediate had returned Done. The result last of Refused is the reason of the latest
// refusal, ErrNoHandler or ErrRemoteAccess. The function of the next Flush gets the result
// last of Refused as its error. Over a reliable fabric, the peer may report refusals only
// at a flush, or when the peer renews the credits.
func (ep *Endpoint) Refused() (messages uint64, last error) { return ep.flushes.Refusals() }

// Flush lets Progress call fn, if fn is not nil, when the peer has acknowledged everything that was
// sent before. The argument of fn is ErrNoHandler or ErrRemoteAccess if the peer has refused
// messages after Send had returned Done (see Refused). If the endpoint ends before the flush is
// complete, the argument of fn is the error of Endpoint.Err. On an ended endpoint, Flush may call
// fn before it returns. The argument now of Flush is the present time.
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
	ep.flushQueue().Add(fn, ep.lastQueued(), sent, ep.pack.Open())
	ep.checkFlushed()
	ep.m.askFlush(ep)
}

// Fence orders sends to the peer. Fragments given to Send after Fence are sent only when
// all fragments given to Send before Fence are done. A message is done when the peer has
// acknowledged it. A put is done when all bytes are written, and a get or an atomic
// operation when its answer has arrived. Fence does not block. While a fence is pending,
// SendImmediate returns ErrAgain. Without a Fence, the peer may execute operations and
// messages in a different order than they were sent. The argument now of Fence is the
// present time.
func (ep *Endpoint) Fence(now Time) {
	ep.m.at(now)
	if ep.err != nil {
		return
	}
	sent := ep.sealForFlush()
	ep.flushQueue().Fence(ep.lastQueued(), sent, ep.pack.Open())
	ep.checkFlushed()
	ep.m.askFlush(ep)
	ep.m.sched.rearm(ep)
}

// sealForFlush closes the open Pack, so that no later message is added to this packet. sealForFlush
// returns the sequence number after all sent packets.
func (ep *Endpoint) sealForFlush() seq.Num {
	if ep.pack.Open() && ep.id.State() == stateConnected {
		ep.m.sched.overtook(ep, ep.m.sealPack(ep))
	}
	return ep.sentUntil()
}

// noteUntold records the loss of an accepted message without an OnDone function. The function of
// the next Flush gets err.
func (ep *Endpoint) noteUntold(err error) {
	if ep.err == nil {
		ep.flushQueue().Lost(err)
	}
}

func (s *sending) lastQueued() flush.Tails[*Fragment] {
	return flush.Tails[*Fragment]{s.small.queue.last, s.large.queue.last}
}

// sentUntil returns the sequence number after all sent packets and the open Pack, if there is one.
func (ep *Endpoint) sentUntil() seq.Num {
	_, next := ep.snd.Window()
	if ep.pack.Open() {
		next++
	}
	return next
}

// markFlush is called when the last packet of fragment f was sent. markFlush makes each Flush
// that waits for f wait for the acknowledgement of all packets sent so far.
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

// checkFlushed completes the flushes and fences whose packets are all acknowledged.
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

func (ep *Endpoint) failFlushes() {
	for d, ok := ep.flushes.Fail(); ok; d, ok = ep.flushes.Fail() {
		if !d.Fence {
			ep.m.outbox.noteFlush(ep, d.Fn, ep.err)
		}
	}
}

func (ep *Endpoint) behindFence(f *Fragment) bool { return ep.flushes.Behind(f.fence) }

// before returns the fragment of a queue behind which f is queued. The answer to a peer's operation
// is queued ahead of fragments that wait for a fence, an urgent fragment behind other urgent ones
// only, and any other fragment at the end.
func (ep *Endpoint) before(q *fragmentList, f *Fragment) (last *Fragment) {
	if f.answer {
		f.fence = ep.flushes.Met()
	}
	if f.answer && (q.last == nil || !ep.behindFence(q.last)) || !f.answer && !f.urgent {
		return q.last
	}
	for l := q.first; l != nil && (l.urgent || f.answer && !ep.behindFence(l)); l = l.next {
		last = l
	}
	return last
}

// lastBefore returns, for each of the endpoint's queues, the last fragment with at most fences
// calls of Fence before it.
func (s *sending) lastBefore(fences uint32) (last flush.Tails[*Fragment]) {
	for k, q := range [...]*fragmentList{&s.small.queue, &s.large.queue} {
		for f := q.first; f != nil && int32(f.fence-fences) <= 0; f = f.next {
			last[k] = f
		}
	}
	return last
}

func (ep *Endpoint) checkFlushes() error {
	if ep.err != nil && ep.flushes.Len() > 0 {
		return errors.New("flushes are due and will not be called")
	}
	oldest, _ := ep.snd.Window()
	return ep.flushes.Check(oldest, ep.sentUntil(), ep.remote.Waiting() > 0,
		func(f *Fragment) bool { return f.state == fragQueued && f.ep == ep })
}
