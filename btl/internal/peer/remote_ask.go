package peer

import (
	"fmt"

	"gobtl/btl/internal/remote"
)

// prepareAsk returns a fragment for a memory request, which fits into one packet. The argument
// "answered" of prepareAsk says whether the request waits for a reply, and therefore needs a slot
// in the table of waiting operations. If the argument "full" of prepareAsk is true, a limit for the
// request has been reached, and prepareAsk returns ErrAgain.
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

// The method "asked" records that the only packet of a memory request was sent.
func (tm *Timers) asked(f *Fragment) {
	if f.Op == nil || !f.Ep.Remote.Asked(f.Op) {
		return
	}
	f.out++
	tm.Watches.WatchAsks(f.Ep)
}

// failAsks ends those memory operations of an ended endpoint that wait for a reply, with the error
// err.
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
