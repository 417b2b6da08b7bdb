package btl

import (
	"fmt"

	"gobtl/internal/seq"
)

// flush is a call of Flush that waits. Those of an endpoint wait in the order of the calls, and no
// later one is done before an earlier one.
type flush struct {
	fn    func(error)
	after [2]*Fragment // set while these fragments, the last of each flow, have not been sent whole
	until seq.Num      // acknowledged below this number means flushed
}

// Flush calls fn, if it is not nil, from Progress when everything sent to the endpoint so far is acknowledged, or with
// an error when the endpoint ends before. now is the present instant.
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
	ep.flushes.push(flush{fn: fn, after: ep.lastQueued(), until: ep.sentUntil()})
	ep.checkFlushed()
	ep.m.askFlush(ep)
}

// lastQueued returns the fragments that stand last in the endpoint's queues.
func (ep *Endpoint) lastQueued() [2]*Fragment {
	return [2]*Fragment{ep.small.queue.last, ep.large.queue.last}
}

// waits says whether the flush waits for something to be sent.
func (f *flush) waits() bool { return f.after[0] != nil || f.after[1] != nil }

// moveFlush has the flushes that wait for a fragment, which is not sent after all, wait for the one
// before it in its queue, if there is one.
func (ep *Endpoint) moveFlush(f, before *Fragment) {
	waiting := ep.flushes.all()
	for i := range waiting {
		for k, after := range waiting[i].after {
			if after == f && before != nil {
				waiting[i].after[k] = before
			}
		}
	}
}

// sentUntil is the number behind everything that has left the queue: an open pack is promised the
// next one.
func (ep *Endpoint) sentUntil() seq.Num {
	_, next := ep.snd.Window()
	if ep.pack.open() {
		next++
	}
	return next
}

// markFlush notes the number behind a fragment whose last packet was sent. Flushes wait in the
// order in which what they wait for stands in the queue: behind one that waits for another fragment
// of the queue there is none that waits for this one.
func (ep *Endpoint) markFlush(f *Fragment) {
	if ep.flushes.len() == 0 {
		return
	}
	k := 0
	if f.large {
		k = 1
	}
	waiting := ep.flushes.all()
	for i := range waiting {
		switch waiting[i].after[k] {
		case nil:
		case f:
			waiting[i].after[k] = nil
			waiting[i].until = ep.sentUntil()
		default:
			return
		}
	}
}

// checkFlushed has the flushes called whose numbers are acknowledged.
func (ep *Endpoint) checkFlushed() {
	oldest, _ := ep.snd.Window()
	for ep.flushes.len() > 0 {
		f := &ep.flushes.all()[0]
		if f.waits() || oldest.Before(f.until) {
			return
		}
		ep.m.outbox.noteFlush(ep, f.fn, nil)
		ep.flushes.pop()
	}
}

// failFlushes ends the flushes of an endpoint that has ended.
func (ep *Endpoint) failFlushes() {
	for f, ok := ep.flushes.pop(); ok; f, ok = ep.flushes.pop() {
		ep.m.outbox.noteFlush(ep, f.fn, ep.err)
	}
}

// checkFlushes proves that no call of Flush is forgotten.
func (ep *Endpoint) checkFlushes() error {
	oldest, _ := ep.snd.Window()
	waiting := ep.flushes.all()
	for i := range waiting {
		f := &waiting[i]
		for _, after := range f.after {
			if after != nil && (after.state != fragQueued || after.ep != ep) {
				return fmt.Errorf("flush %d waits for a fragment that is not queued", i)
			}
		}
		if due := !f.waits() && !oldest.Before(f.until); due && i == 0 || ep.err != nil {
			return fmt.Errorf("flush %d is due and will not be called", i)
		}
	}
	return nil
}
