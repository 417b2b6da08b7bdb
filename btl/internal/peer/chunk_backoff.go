package peer

import "fmt"

// Over a reliable fabric, a peer without memory for a chunked fragment sends a Nack, and this side
// sends the whole fragment again (Sent.resendWhole). Before each new attempt to send a refused
// fragment, the endpoint sends no large fragments for some time (package backoff).

// The method "pauses" reports whether the next large fragment f must wait for the end of a pause
// (package backoff). A fragment of which a chunk was already sent never waits.
func (ep *Endpoint) pauses(f *Fragment) bool {
	return ep.pausing() && f.cursor == 0
}

// resume puts the send queues of an endpoint back into the scheduler's list, when the endpoint's
// pause before large fragments has ended.
func (tx Sender) resume(ep *Endpoint) {
	if ep.ID.State != StateConnected {
		return
	}
	if ep.bulk() {
		ep.large.balance.BeginLarge()
	}
	tx.Sched.Rearm(ep)
}

func (*Checker) checkPauses(all *Services) error {
	listed, err := all.Sched.Pauses.Check(func(ep *Endpoint) bool { return ep.Err() == nil })
	if err != nil {
		return err
	}
	for _, ep := range all.Peers.All() {
		if ep != nil && ep.pausing() && ep.Err() == nil {
			listed--
		}
	}
	if listed != 0 {
		return fmt.Errorf("%d more endpoints pause on the list than are there", listed)
	}
	return nil
}
