package btl

import (
	"fmt"

	"gobtl/internal/seq"
)

// flush is a call of Flush that waits. Those of an endpoint wait in the order of the calls, and no
// later one is done before an earlier one.
type flush struct {
	fn     func(error)
	after  [2]*Fragment // set while these fragments, the last of each flow, have not been sent whole
	until  seq.Num      // acknowledged below this number means flushed
	sent   seq.Num      // what was sent before the call has numbers below this one
	open   bool         // and the last of these was an open pack
	fence  bool         // nobody is told, but what waits behind it may be sent
	fences uint32       // calls of Fence before this one
	err    error        // some of that was refused
}

// unheard is what the peer has refused of which Send has said Done, so that nobody else is told.
type unheard struct {
	count  uint64
	last   error
	untold error // what the next Flush is to say
}

// Refused returns how many messages the peer has refused of which Send, or SendImmediate, said that
// they are done, and why the latest one was: ErrNoHandler, ErrRemoteAccess. A Flush of such a
// message says it too. Over a fabric that is reliable by itself the peer may tell it only when
// something is flushed, or when credits are renewed.
func (ep *Endpoint) Refused() (messages uint64, last error) {
	return ep.unheard.count, ep.unheard.last
}

// noteRefused books messages of the packet with number n that were refused. The first flush that
// was called after it was sent says so, or else the next one to be called. Of a pack that was open
// when a flush was called nobody knows which part was refused: the next one says so, too.
func (ep *Endpoint) noteRefused(n seq.Num, messages int, err error) {
	if messages <= 0 {
		return
	}
	ep.unheard.count += uint64(messages)
	ep.unheard.last = err
	waiting := ep.flushes.all()
	for i := range waiting {
		w := &waiting[i]
		if w.fence || !n.Before(w.sent) {
			continue
		}
		if w.err = err; !w.open || n != w.sent-1 {
			return
		}
	}
	ep.unheard.untold = err
}

// Flush calls fn, if it is not nil, from Progress when everything sent to the endpoint so far is
// acknowledged: with ErrNoHandler or ErrRemoteAccess if the peer has refused some of it of which
// Send has said Done (see Refused), or with another error when the endpoint ends before. now is the
// present instant.
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
	if ep.pack.open() && ep.state == stateConnected { // so that it holds nothing of what follows
		ep.m.overtook(ep, ep.m.sealPack(ep))
	}
	sent := ep.sentUntil()
	ep.flushes.push(flush{
		fn: fn, after: ep.lastQueued(), until: sent, sent: sent, open: ep.pack.open(),
		fences: ep.fences.set, err: ep.unheard.untold,
	})
	ep.unheard.untold = nil
	ep.checkFlushed()
	ep.m.askFlush(ep)
}

// noteUntold books that something which was taken over to be sent is lost, of which nobody is told.
// The next Flush says why; of an endpoint that has ended each does.
func (ep *Endpoint) noteUntold(err error) {
	if ep.err == nil {
		ep.unheard.untold = err
	}
}

// lastQueued returns the fragments that stand last in the endpoint's queues.
func (ep *Endpoint) lastQueued() [2]*Fragment {
	return [2]*Fragment{ep.small.queue.last, ep.large.queue.last}
}

// waits says whether the flush waits for something to be sent.
func (f *flush) waits() bool { return f.after[0] != nil || f.after[1] != nil }

// moveFlush has the flushes that wait for a fragment, which is not sent after all, wait for the one
// before it in its queue.
func (ep *Endpoint) moveFlush(f, before *Fragment) {
	waiting := ep.flushes.all()
	for i := range waiting {
		for k, after := range waiting[i].after {
			if after == f {
				waiting[i].after[k] = before
			}
		}
	}
}

// renumberFlushes has the flushes of an endpoint that has sent nothing yet count from the first
// number that it will use, which has become another one.
func (ep *Endpoint) renumberFlushes() {
	waiting := ep.flushes.all()
	for i := range waiting {
		waiting[i].sent = ep.sentUntil()
		waiting[i].until = waiting[i].sent
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
	until := ep.sentUntil()
	asks := false
	for i := range waiting {
		w := &waiting[i]
		if w.after[k] != nil && w.after[k] != f {
			break
		}
		if w.after[k] == f {
			w.after[k], w.until = nil, until
			asks = asks || !w.waits()
		}
	}
	if asks && !ep.counted {
		ep.m.askAck(ep, until-1)
	}
}

// checkFlushed has the flushes called whose numbers are acknowledged.
func (ep *Endpoint) checkFlushed() {
	oldest, _ := ep.snd.Window()
	for ep.flushes.len() > 0 {
		f := &ep.flushes.all()[0]
		if f.waits() || oldest.Before(f.until) || f.fence && ep.remote.Waiting() > 0 {
			return
		}
		if f.fence {
			ep.fences.met++
			ep.m.sched.rearm(ep)
		} else {
			ep.m.outbox.noteFlush(ep, f.fn, f.err)
		}
		ep.flushes.pop()
	}
}

// failFlushes ends the flushes of an endpoint that has ended.
func (ep *Endpoint) failFlushes() {
	for f, ok := ep.flushes.pop(); ok; f, ok = ep.flushes.pop() {
		if !f.fence {
			ep.m.outbox.noteFlush(ep, f.fn, ep.err)
		}
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
		if ep.sentUntil().Before(f.sent) {
			return fmt.Errorf("flush %d was called when more was sent than has been", i)
		}
		due := !f.waits() && !oldest.Before(f.until) && (!f.fence || ep.remote.Waiting() == 0)
		if due && i == 0 || ep.err != nil {
			return fmt.Errorf("flush %d is due and will not be called", i)
		}
	}
	return nil
}
