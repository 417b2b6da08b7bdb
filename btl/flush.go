package btl

import (
	"fmt"

	"gobtl/internal/seq"
)

// flush is a pending call of Flush or Fence. The flushes of an endpoint complete in the order of
// their calls.
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

// unheard counts messages that the peer has refused after Send returned Done, so that no OnDone
// tells.
type unheard struct {
	count  uint64
	last   error
	untold error // what the next Flush is to say
}

// Refused returns the number of messages that the peer refused after Send or SendImmediate reported
// them done, and the latest reason: ErrNoHandler, ErrRemoteAccess. A Flush after such a message
// returns that too. Over a reliable fabric the peer may report refusals only at a flush, or when it
// renews the credits.
func (ep *Endpoint) Refused() (messages uint64, last error) {
	return ep.unheard.count, ep.unheard.last
}

// noteRefused records refused messages of packet n. The first flush called after packet n was sent
// reports them, or else the next call. If a pack was open at that call, the refused records may
// have joined it afterwards: then the next flush reports them too.
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

// noteUntold records the loss of an accepted message that has no OnDone to report it. The next
// Flush returns the error; on an ended endpoint every Flush does.
func (ep *Endpoint) noteUntold(err error) {
	if ep.err == nil {
		ep.unheard.untold = err
	}
}

// lastQueued returns the last fragment of each queue of the endpoint.
func (ep *Endpoint) lastQueued() [2]*Fragment {
	return [2]*Fragment{ep.small.queue.last, ep.large.queue.last}
}

// waits says whether the flush waits for queued fragments to be sent.
func (f *flush) waits() bool { return f.after[0] != nil || f.after[1] != nil }

// moveFlush moves the flushes that wait for a fragment, which is withdrawn, to the fragment before
// it in its queue.
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

// renumberFlushes adapts the flushes of an endpoint that has sent nothing yet to its new first
// sequence number.
func (ep *Endpoint) renumberFlushes() {
	waiting := ep.flushes.all()
	for i := range waiting {
		waiting[i].sent = ep.sentUntil()
		waiting[i].until = waiting[i].sent
	}
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
// after it. Flushes stand in the queue order of those fragments, so the loop ends at the first
// flush of another fragment.
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

// checkFlushed completes the flushes whose numbers are acknowledged.
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

// failFlushes fails the pending flushes of an endpoint that has ended.
func (ep *Endpoint) failFlushes() {
	for f, ok := ep.flushes.pop(); ok; f, ok = ep.flushes.pop() {
		if !f.fence {
			ep.m.outbox.noteFlush(ep, f.fn, ep.err)
		}
	}
}

// checkFlushes verifies that no call of Flush is forgotten.
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
