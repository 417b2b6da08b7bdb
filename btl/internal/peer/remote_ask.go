package peer

import (
	"fmt"

	"gobtl/btl/internal/remote"
)

// prepareAsk returns a fragment for a memory request, which fits into one packet. The argument
// "answered" of prepareAsk is true if the request waits for a reply, and therefore needs a slot in
// the table of waiting operations. If the argument "full" is true, another resource for the request
// is used up, and prepareAsk returns ErrAgain.
func (ds *Descriptors) prepareAsk(ep *Endpoint, sizeBytes int, target remote.Handle,
	offset uint64, answered, full bool,
) (*Fragment, error) {
	if err := ep.mayAsk(); err != nil {
		return nil, err
	}
	if answered && ep.Memory().Full() || full {
		return nil, ds.Outbox.again(ep, wantsAsk)
	}
	f, err := ds.takeFrag(ep, sizeBytes)
	if err != nil {
		return nil, err
	}
	f.handle, f.offset = target, offset
	return f, nil
}

// endOp is called when a fragment is complete or cancelled. It removes the references to the memory
// operation that the fragment carried.
func (st *Sent) endOp(f *Fragment) {
	if ep := f.Ep; st.Remote.End(ep.Remote, f.Op) && ep.Err() == nil {
		st.Sched.Rearm(ep)
	}
}

// The method "asked" records that the only packet of a memory request was sent.
func (tm *Timers) asked(f *Fragment) {
	if f.Op == nil || !f.Ep.Remote.Asked(f.Op) {
		return
	}
	f.out++
	tm.Watches.WatchAsks(f.Ep)
}

// The method "unanswered" ends the wait of a memory operation for its reply.
func (st *Sent) unanswered(f *Fragment) {
	if f.Op == nil || !f.Ep.Remote.Answered(f.Op) {
		return
	}
	st.Rest.AskEnded = true
	ep := f.Ep
	st.chunksEnded(f, 1)
	if ep.Err() == nil {
		st.Flushes.checkFlushed(ep)
		st.Sched.Rearm(ep) // a Bye may have waited for the reply
	}
}

// failAsks ends, with an error, the memory operations of an ended endpoint that wait for a reply.
func (en Endings) failAsks(ep *Endpoint, err error) {
	for _, o := range ep.Remote.All() {
		if o != nil && o.Waits() {
			f := o.Fragment
			if f.Err == nil {
				f.Err = err
			}
			en.Sent.unanswered(f)
		}
	}
}

// GotAnswer records that the reply to a memory operation has arrived. The argument "whole" of
// GotAnswer is true if the reply contains all bytes of a get, which then ends without an
// acknowledgement of the request.
func (st *Sent) GotAnswer(o *Operation, whole bool) {
	f := o.Fragment
	if whole {
		st.needsNoAck(f)
	}
	st.unanswered(f)
}

func (c *Checker) checkAsks(ep *Endpoint) error {
	for _, o := range ep.Remote.All() {
		if o == nil {
			continue
		}
		f := o.Fragment
		if f.Op != o || f.Ep != ep {
			return fmt.Errorf("operation %#x is of a fragment in state %d, which has another",
				o.Number, f.state)
		}
		if !o.Waits() {
			continue
		}
		c.meet(f)
		if f.unmet == 0 || f.state != fragSent {
			return fmt.Errorf("operation %#x waits for an answer, its fragment, in state %d, for %d",
				o.Number, f.state, f.out)
		}
		f.unmet--
		c.refs++
	}
	return ep.Remote.Check()
}

// needsNoAck lets a get end before the acknowledgement of its request, because the reply has
// arrived. The request of a get never shares its packet.
func (st *Sent) needsNoAck(f *Fragment) {
	if f.Ep.ID.Counted || f.state != fragSent {
		return
	}
	if s := &st.Buffers.segs[f.seg]; s.frag == f {
		s.frag = nil
		st.chunksEnded(f, 1)
	}
}
