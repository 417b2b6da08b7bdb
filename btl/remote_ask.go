package btl

import (
	"fmt"
)

// prepareAsk returns a fragment for a memory request of one packet. The argument answered of
// prepareAsk is true if the request waits for a reply, and needs a slot in the table of waiting
// operations. The argument full of prepareAsk is true if another resource is missing, which makes
// prepareAsk return ErrAgain.
func (ep *Endpoint) prepareAsk(sizeBytes int, target Handle, offset uint64, answered, full bool) (
	*Fragment, error,
) {
	if err := ep.mayAsk(); err != nil {
		return nil, err
	}
	if answered && ep.memory().Full() || full {
		return nil, ep.again(wantsAsk)
	}
	f, err := ep.m.takeFrag(ep, sizeBytes)
	if err != nil {
		return nil, err
	}
	f.handle, f.offset = target, offset
	return f, nil
}

// endOp removes the references to the operation of a fragment that has ended or is withdrawn.
func (m *Module) endOp(f *Fragment) {
	if ep := f.ep; m.remote.End(ep.remote, f.op) && ep.err == nil {
		m.sched.rearm(ep)
	}
}

// asked records that the only packet of a memory request was sent.
func (t *peerTimers) asked(f *Fragment) {
	if f.op == nil || !f.ep.remote.Asked(f.op) {
		return
	}
	f.out++
	t.watches.WatchAsks(f.ep)
}

// unanswered ends an operation's wait for its reply.
func (m *Module) unanswered(f *Fragment) {
	if f.op == nil || !f.ep.remote.Answered(f.op) {
		return
	}
	m.askEnded = true
	ep := f.ep
	m.segEnded(f)
	if ep.err == nil {
		ep.checkFlushed()
		m.sched.rearm(ep) // a Bye may have waited for the reply
	}
}

// failAsks ends the operations of an ended endpoint that wait for a reply with an error.
func (m *Module) failAsks(ep *Endpoint, err error) {
	for _, o := range ep.remote.All() {
		if o != nil && o.Waits() {
			f := o.Fragment()
			if f.err == nil {
				f.err = err
			}
			m.unanswered(f)
		}
	}
}

// gotAnswer ends the wait of an operation whose reply has arrived. The argument whole of
// gotAnswer is true if the reply contains all bytes of a get, which then ends without an
// acknowledgement of the request.
func (m *Module) gotAnswer(o *operation, whole bool) {
	f := o.Fragment()
	if whole {
		m.needsNoAck(f)
	}
	m.unanswered(f)
}

func (c *checker) checkAsks(ep *Endpoint) error {
	for _, o := range ep.remote.All() {
		if o == nil {
			continue
		}
		f := o.Fragment()
		if f.op != o || f.ep != ep {
			return fmt.Errorf("operation %#x is of a fragment in state %d, which has another",
				o.Number(), f.state)
		}
		if !o.Waits() {
			continue
		}
		c.meet(f)
		if f.unmet == 0 || f.state != fragSent {
			return fmt.Errorf("operation %#x waits for an answer, its fragment, in state %d, for %d",
				o.Number(), f.state, f.out)
		}
		f.unmet--
		c.refs++
	}
	return ep.remote.Check()
}
