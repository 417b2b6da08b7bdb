package btl

import (
	"fmt"
)

// prepareAsk lends a fragment for a request of one packet. A request with an answer needs a slot
// for the answer; full says that another resource is missing.
func (ep *Endpoint) prepareAsk(sizeBytes int, target Handle, offset uint64, answered, full bool) (
	*Fragment, error,
) {
	if err := ep.mayAsk(); err != nil {
		return nil, err
	}
	if answered && ep.memory().Full() || full {
		return nil, ep.again(wantsFragment)
	}
	f, err := ep.m.takeFrag(ep, sizeBytes)
	if err != nil {
		return nil, err
	}
	f.handle, f.offset = target, offset
	return f, nil
}

// endOp removes the references to the operation of a fragment that has ended, or is withdrawn.
func (m *Module) endOp(f *Fragment) {
	if ep := f.ep; m.remote.End(ep.remote, f.op) && ep.err == nil {
		m.sched.rearm(ep)
	}
}

// asked notes that the only packet of an operation was sent.
func (m *Module) asked(f *Fragment) {
	if f.op == nil || !f.ep.remote.Asked(f.op) {
		return
	}
	f.out++
	m.watches.WatchAsks(f.ep)
}

// unanswered ends an operation's wait for its answer, which came, or never will.
func (m *Module) unanswered(f *Fragment) {
	if f.op == nil || !f.ep.remote.Answered(f.op) {
		return
	}
	m.askEnded = true
	ep := f.ep
	m.segEnded(f)
	if ep.err == nil {
		ep.checkFlushed()
		m.sched.rearm(ep) // a goodbye may have waited
	}
}

// failAsks fails the operations that wait for an answer when their endpoint has ended.
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

// gotAnswer ends the wait of an operation whose answer has come: if whole is set it is all bytes of
// a get, whose end then does not depend on the request's ACK.
func (m *Module) gotAnswer(o *operation, whole bool) {
	f := o.Fragment()
	if whole {
		m.needsNoAck(f)
	}
	m.unanswered(f)
}

// checkAsks verifies the operations of an endpoint that wait for answers.
func (m *Module) checkAsks(c *checker, ep *Endpoint) error {
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
