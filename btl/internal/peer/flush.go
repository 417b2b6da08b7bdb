package peer

import (
	"errors"

	"gobtl/btl/internal/flush"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Flushes implements the calls of Flush and Fence.
type Flushes struct{ *Services }

// flushQueue returns the queue of the endpoint's pending calls of Flush and Fence. The first call
// of flushQueue allocates the queue of pending calls.
func (ep *Endpoint) flushQueue() *flush.Queue[*Fragment] {
	if ep.Flushes == nil {
		ep.Flushes = new(flush.Queue[*Fragment])
	}
	return ep.Flushes
}

// Flush does the work of btl.Endpoint.Flush.
func (fl Flushes) Flush(ep *Endpoint, now mono.Time, fn func(error)) {
	fl.At(now)
	if ep.Err() != nil {
		if fl.Outbox.Pulled {
			fl.Outbox.noteFlush(ep, fn, ep.Err())
			return
		}
		if fn != nil {
			fn(ep.Err())
		}
		return
	}
	sent := fl.sealForFlush(ep)
	ep.flushQueue().Add(fn, ep.lastQueued(), sent, ep.pack.Open())
	fl.checkFlushed(ep)
	fl.Acks.askFlush(ep)
}

// Fence does the work of btl.Endpoint.Fence.
func (fl Flushes) Fence(ep *Endpoint, now mono.Time) {
	fl.At(now)
	if ep.Err() != nil {
		return
	}
	sent := fl.sealForFlush(ep)
	ep.flushQueue().Fence(ep.lastQueued(), sent, ep.pack.Open())
	fl.checkFlushed(ep)
	fl.Acks.askFlush(ep)
	fl.Sched.Rearm(ep)
}

// sealForFlush seals the open Pack (a packet of several messages), so that no message is added to
// it after the flush. sealForFlush returns the endpoint's next unused sequence number.
func (fl Flushes) sealForFlush(ep *Endpoint) seq.Num {
	if ep.pack.Open() && ep.ID.State == StateConnected {
		fl.Sched.overtook(ep, fl.Packs.sealPack(ep))
	}
	return ep.SentUntil()
}

// NoteUntold records that a message without an OnDone function was lost after Send had accepted it.
// After NoteUntold, the next call of Flush reports the error err.
func (ep *Endpoint) NoteUntold(err error) {
	if ep.Err() == nil {
		ep.flushQueue().Lost(err)
	}
}

func (s *sending) lastQueued() flush.Tails[*Fragment] {
	return flush.Tails[*Fragment]{s.small.queue.last, s.large.queue.last}
}

// SentUntil returns the lowest unused sequence number. The sequence number that is reserved for an
// open Pack (a packet of several messages) counts as used.
func (ep *Endpoint) SentUntil() seq.Num {
	_, next := ep.Snd.Window()
	if ep.pack.Open() {
		next++
	}
	return next
}

// markFlush is called when the last packet of fragment f was sent. After markFlush, each Flush that
// has waited for the sending of f waits for the acknowledgement of all packets sent so far.
func (fl Flushes) markFlush(ep *Endpoint, f *Fragment) {
	if ep.Flushes.Len() == 0 {
		return
	}
	k := 0
	if f.large {
		k = 1
	}
	until := ep.SentUntil()
	if ep.Flushes.Sent(f, k, until) {
		fl.Acks.askAck(ep, until-1)
	}
}

// checkFlushed completes the flushes and fences whose packets are all acknowledged.
func (fl Flushes) checkFlushed(ep *Endpoint) {
	if ep.Flushes.Len() == 0 {
		return
	}
	oldest, _ := ep.Snd.Window()
	for {
		d, ok := ep.Flushes.Next(oldest, ep.Remote.Waiting() > 0)
		switch {
		case !ok:
			return
		case d.Fence:
			fl.Sched.Rearm(ep)
		default:
			fl.Outbox.noteFlush(ep, d.Fn, d.Err)
		}
	}
}

func (fl Flushes) failFlushes(ep *Endpoint) {
	for d, ok := ep.Flushes.Fail(); ok; d, ok = ep.Flushes.Fail() {
		if !d.Fence {
			fl.Outbox.noteFlush(ep, d.Fn, ep.Err())
		}
	}
}

// ahead returns the queued fragment after which fragment f must be inserted into the queue, or nil
// for the front of the queue. The answer to a peer's operation is inserted before the fragments
// that wait for a fence. An urgent fragment is inserted after the urgent fragments that are already
// queued, and before all fragments that are not urgent.
func (ep *Endpoint) ahead(q *fragmentList, f *Fragment) (last *Fragment) {
	if f.answer {
		if f.fence = ep.Flushes.Met(); q.last == nil || !ep.Flushes.Behind(q.last.fence) {
			return q.last
		}
	}
	for l := q.first; l != nil && (l.urgent || f.answer && !ep.Flushes.Behind(l.fence)); l = l.next {
		last = l
	}
	return last
}

// For each of the endpoint's queues, lastBefore returns the last fragment that was queued after at
// most "fences" calls of Fence.
func (s *sending) lastBefore(fences uint32) (last flush.Tails[*Fragment]) {
	for k, q := range [...]*fragmentList{&s.small.queue, &s.large.queue} {
		for f := q.first; f != nil && int32(f.fence-fences) <= 0; f = f.next {
			last[k] = f
		}
	}
	return last
}

func (ep *Endpoint) checkFlushes() error {
	if ep.Err() != nil && ep.Flushes.Len() > 0 {
		return errors.New("flushes are due and will not be called")
	}
	oldest, _ := ep.Snd.Window()
	return ep.Flushes.Check(oldest, ep.SentUntil(), ep.Remote.Waiting() > 0,
		func(f *Fragment) bool { return f.state == fragQueued && f.Ep == ep })
}
