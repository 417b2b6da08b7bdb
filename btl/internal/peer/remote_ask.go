package peer

import (
	"fmt"

	"gobtl/btl/internal/remote"
)

// prepareAsk returns a fragment for a memory request of one packet. The argument answered of
// prepareAsk is true if the request waits for a reply, and needs a slot in the table of waiting
// operations. The argument full of prepareAsk is true if a resource other than the slot is missing,
// which makes prepareAsk return ErrAgain.
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

// endOp removes the references to the operation of a fragment that has ended or is withdrawn.
func (st *Sent) endOp(f *Fragment) {
	if ep := f.Ep; st.Remote.End(ep.Remote, f.Op) && ep.err == nil {
		st.Sched.Rearm(ep)
	}
}

// asked records that the only packet of a memory request was sent.
func (tm *Timers) asked(f *Fragment) {
	if f.Op == nil || !f.Ep.Remote.Asked(f.Op) {
		return
	}
	f.Out++
	tm.Watches.WatchAsks(f.Ep)
}

// unanswered ends an operation's wait for its reply.
func (st *Sent) unanswered(f *Fragment) {
	if f.Op == nil || !f.Ep.Remote.Answered(f.Op) {
		return
	}
	st.Rest.askEnded = true
	ep := f.Ep
	st.SegEnded(f)
	if ep.err == nil {
		st.Flushes.checkFlushed(ep)
		st.Sched.Rearm(ep) // a Bye may have waited for the reply
	}
}

// failAsks ends the operations of an ended endpoint that wait for a reply with an error.
func (en *Endings) failAsks(ep *Endpoint, err error) {
	for _, o := range ep.Remote.All() {
		if o != nil && o.Waits() {
			f := o.Fragment()
			if f.Err == nil {
				f.Err = err
			}
			en.Sent.unanswered(f)
		}
	}
}

// GotAnswer ends the wait of an operation whose reply has arrived. The argument whole of
// GotAnswer is true if the reply contains all bytes of a get, which then ends without an
// acknowledgement of the request.
func (st *Sent) GotAnswer(o *Operation, whole bool) {
	f := o.Fragment()
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
		f := o.Fragment()
		if f.Op != o || f.Ep != ep {
			return fmt.Errorf("operation %#x is of a fragment in state %d, which has another",
				o.Number(), f.State)
		}
		if !o.Waits() {
			continue
		}
		c.meet(f)
		if f.unmet == 0 || f.State != FragSent {
			return fmt.Errorf("operation %#x waits for an answer, its fragment, in state %d, for %d",
				o.Number(), f.State, f.Out)
		}
		f.unmet--
		c.refs++
	}
	return ep.Remote.Check()
}

// needsNoAck makes the end of a get independent of the acknowledgement of its request, because
// the reply has arrived. The request of a get never shares its packet.
func (st *Sent) needsNoAck(f *Fragment) {
	if f.Ep.ID.Counted || f.State != FragSent {
		return
	}
	if s := &st.Buffers.Segs[f.Seg]; s.Frag == f {
		s.Frag = nil
		st.SegEnded(f)
	}
}
