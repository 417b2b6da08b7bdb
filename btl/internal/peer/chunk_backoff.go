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
// chunks of two fragments must not be mixed.
func (st *Sent) resendWhole(ep *Endpoint, f *Fragment) {
	if !f.large || f.put {
		return // such a fragment needs no memory at the peer
	}
	st.Count[stats.CntRetransmitNack]++
	ep.Counts.confirm.remove(f)
	f.Out--
	f.cursor, f.State = 0, FragQueued
	busy := ep.Large.Queue.First
	if busy != nil && busy.cursor == 0 {
		busy = nil
	}
	ep.Large.Queue.insert(f, busy)
	ep.Flushes.Again(f, 1, f.until, busy) // flushes that waited for f wait again
	st.Sched.Pauses.Begin(ep, &ep.Counts.pause, st.Clock.Now)
	st.Sched.Rearm(ep)
}

// pauses reports whether the next large fragment f has to wait for the end of a pause. A partly
// sent fragment does not wait.
func (ep *Endpoint) pauses(f *Fragment) bool {
	return ep.ID.Counted && ep.Counts.pause.Waits() && f.cursor == 0
}

// resume lists the flows of an endpoint whose pause between large fragments has ended.
func (tx *Sender) resume(ep *Endpoint) {
	if ep.ID.State() != StateConnected {
		return
	}
	if ep.bulk() {
		ep.beginBulk()
	}
	tx.Sched.Rearm(ep)
}

func (*Checker) checkPauses(all *Services) error {
	listed, err := all.Sched.Pauses.Check(func(ep *Endpoint) bool { return ep.err == nil })
	if err != nil {
		return err
	}
	for _, ep := range all.Peers.All() {
		if ep != nil && ep.ID.Counted && ep.Counts.pause.Waits() && ep.err == nil {
			listed--
		}
	}
	if listed != 0 {
		return fmt.Errorf("%d more endpoints pause on the list than are there", listed)
	}
	return nil
}
