package peer

import (
	"fmt"

	"gobtl/btl/internal/stats"
)

// Over a reliable fabric, a peer without memory for a chunked fragment sends a Nack, and this
// side sends the whole fragment again. Before each new attempt to send a refused fragment, the
// endpoint sends no large fragments for some time (package backoff). Small fragments do not pause.

// resendWhole puts a chunked fragment, for which the peer had no memory, back into its queue. The
// refused fragment goes to the front of the queue, or behind a partly sent fragment, because the
// chunks of two fragments must not be mixed. The argument "before" of resendWhole is the fragment
// before f in the list of fragments that wait for an ACK.
func (st *Sent) resendWhole(ep *Endpoint, f, before *Fragment) {
	if !f.large || f.put {
		return // such a fragment needs no memory at the peer
	}
	st.Count[stats.CntRetransmitNack]++
	ep.Counts.confirm.removeBehind(before, f)
	f.out--
	f.cursor, f.state = 0, fragQueued
	busy := ep.large.queue.first
	if busy != nil && busy.cursor == 0 {
		busy = nil
	}
	ep.large.queue.insert(f, busy)
	ep.Flushes.Again(f, 1, f.until, busy) // flushes that waited for f wait again
	st.Sched.Pauses.Begin(ep, &ep.Counts.pause, st.Clock.Now)
	st.Sched.Rearm(ep)
}

// The method "pauses" reports whether the next large fragment f must wait for the end of a pause
// (package backoff). A partly sent fragment never waits.
func (ep *Endpoint) pauses(f *Fragment) bool {
	return ep.ID.Counted && ep.Counts.pause.Waits() && f.cursor == 0
}

// resume puts the send queues of an endpoint back into the scheduler's list, when the endpoint's
// pause before large fragments has ended.
func (tx Sender) resume(ep *Endpoint) {
	if ep.ID.State != StateConnected {
		return
	}
	if ep.bulk() {
		ep.balance.BeginLarge()
	}
	tx.Sched.Rearm(ep)
}

func (*Checker) checkPauses(all *Services) error {
	listed, err := all.Sched.Pauses.Check(func(ep *Endpoint) bool { return ep.Err() == nil })
	if err != nil {
		return err
	}
	for _, ep := range all.Peers.All() {
		if ep != nil && ep.ID.Counted && ep.Counts.pause.Waits() && ep.Err() == nil {
			listed--
		}
	}
	if listed != 0 {
		return fmt.Errorf("%d more endpoints pause on the list than are there", listed)
	}
	return nil
}
