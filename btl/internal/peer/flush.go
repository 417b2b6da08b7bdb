package peer

import (
	"errors"

	"gobtl/btl/internal/flush"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Flushes carries out the calls of Flush and Fence.
type Flushes struct{ *Services }

// FlushQueue returns the queue of the endpoint's pending calls of Flush and Fence, and makes the
// queue if necessary.
func (ep *Endpoint) FlushQueue() *flush.Queue[*Fragment] {
	if ep.Flushes == nil {
		ep.Flushes = new(flush.Queue[*Fragment])
	}
	return ep.Flushes
}

// Flush does the work of btl.Endpoint.Flush.
func (fl *Flushes) Flush(ep *Endpoint, now mono.Time, fn func(error)) {
	fl.At(now)
	if ep.err != nil {
		if fl.Outbox.Pulled {
			fl.Outbox.noteFlush(ep, fn, ep.err)
			return
		}
		if fn != nil {
			fn(ep.err)
		}
		return
	}
	sent := fl.sealForFlush(ep)
	ep.FlushQueue().Add(fn, ep.lastQueued(), sent, ep.Pack.Open())
	fl.checkFlushed(ep)
	fl.Acks.askFlush(ep)
}

// Fence does the work of btl.Endpoint.Fence.
func (fl *Flushes) Fence(ep *Endpoint, now mono.Time) {
	fl.At(now)
	if ep.err != nil {
		return
	}
	sent := fl.sealForFlush(ep)
	ep.FlushQueue().Fence(ep.lastQueued(), sent, ep.Pack.Open())
	fl.checkFlushed(ep)
	fl.Acks.askFlush(ep)
	fl.Sched.Rearm(ep)
}

// sealForFlush closes the open Pack, so that no later message is added to this packet. sealForFlush
// returns the sequence number after all sent packets.
func (fl *Flushes) sealForFlush(ep *Endpoint) seq.Num {
	if ep.Pack.Open() && ep.ID.State() == StateConnected {
		fl.Sched.overtook(ep, fl.Packs.sealPack(ep))
	}
	return ep.SentUntil()
}

// NoteUntold records that a message without an OnDone function was lost after Send had accepted it.
// The function of the next Flush gets err.
func (ep *Endpoint) NoteUntold(err error) {
	if ep.err == nil {
		ep.FlushQueue().Lost(err)
	}
}

func (s *sending) lastQueued() flush.Tails[*Fragment] {
	return flush.Tails[*Fragment]{s.Small.Queue.Last, s.Large.Queue.Last}
}

// SentUntil returns the sequence number after all sent packets and the open Pack, if there is one.
func (ep *Endpoint) SentUntil() seq.Num {
	_, next := ep.Snd.Window()
	if ep.Pack.Open() {
		next++
	}
	return next
}

// markFlush is called when the last packet of fragment f was sent. markFlush makes each Flush
// that waits for f wait for the acknowledgement of all packets sent so far.
func (fl *Flushes) markFlush(ep *Endpoint, f *Fragment) {
	if ep.Flushes.Len() == 0 {
		return
	}
	k := 0
	if f.large {
		k = 1
	}
	until := ep.SentUntil()
	if ep.Flushes.Sent(f, k, until) && !ep.ID.Counted {
		fl.Acks.askAck(ep, until-1)
	}
}

// checkFlushed completes the flushes and fences whose packets are all acknowledged.
func (fl *Flushes) checkFlushed(ep *Endpoint) {
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

func (fl *Flushes) failFlushes(ep *Endpoint) {
	for d, ok := ep.Flushes.Fail(); ok; d, ok = ep.Flushes.Fail() {
		if !d.Fence {
			fl.Outbox.noteFlush(ep, d.Fn, ep.err)
		}
	}
}

func (ep *Endpoint) behindFence(f *Fragment) bool { return ep.Flushes.Behind(f.fence) }

// ahead returns the fragment behind which f is queued. The answer to a peer's operation is queued
// ahead of fragments that wait for a fence. An urgent fragment is queued ahead of all fragments
// except earlier urgent fragments.
func (ep *Endpoint) ahead(q *FragmentList, f *Fragment) (last *Fragment) {
	if f.Answer {
		if f.fence = ep.Flushes.Met(); q.Last == nil || !ep.behindFence(q.Last) {
			return q.Last
		}
	}
	for l := q.First; l != nil && (l.urgent || f.Answer && !ep.behindFence(l)); l = l.Next {
		last = l
	}
	return last
}

// lastBefore returns, for each of the endpoint's queues, the last fragment with at most fences
// calls of Fence before it.
func (s *sending) lastBefore(fences uint32) (last flush.Tails[*Fragment]) {
	for k, q := range [...]*FragmentList{&s.Small.Queue, &s.Large.Queue} {
		for f := q.First; f != nil && int32(f.fence-fences) <= 0; f = f.Next {
			last[k] = f
		}
	}
	return last
}

func (ep *Endpoint) checkFlushes() error {
	if ep.err != nil && ep.Flushes.Len() > 0 {
		return errors.New("flushes are due and will not be called")
	}
	oldest, _ := ep.Snd.Window()
	return ep.Flushes.Check(oldest, ep.SentUntil(), ep.Remote.Waiting() > 0,
		func(f *Fragment) bool { return f.State == FragQueued && f.Ep == ep })
}
