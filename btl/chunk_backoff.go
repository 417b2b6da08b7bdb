package btl

import "fmt"

// Over a reliable fabric, a peer without memory for a chunked fragment sends a Nack, and this
// side sends the whole fragment again. Before each new attempt to send a refused fragment, the
// endpoint sends no large fragments for some time (package backoff). Small fragments do not pause.

// resendWhole puts a chunked fragment, for which the peer had no memory, back into its queue. The
// refused fragment goes to the front of the queue, or behind a partly sent fragment, because the
// chunks of two fragments must not be mixed.
func (m *Module) resendWhole(ep *Endpoint, f *Fragment) {
	if !f.large || f.put {
		return // such a fragment needs no memory at the peer
	}
	m.stats.counters[CntRetransmitNack]++
	ep.counts.confirm.remove(f)
	f.out--
	f.cursor, f.state = 0, fragQueued
	busy := ep.large.queue.first
	if busy != nil && busy.cursor == 0 {
		busy = nil
	}
	ep.large.queue.insert(f, busy)
	ep.flushes.Again(f, 1, f.until, busy) // flushes that waited for f wait again
	m.sched.pauses.Begin(ep, &ep.counts.pause, m.clock.Now)
	m.sched.rearm(ep)
}

// pauses reports whether the next large fragment f has to wait for the end of a pause. A partly
// sent fragment does not wait.
func (ep *Endpoint) pauses(f *Fragment) bool {
	return ep.id.Counted && ep.counts.pause.Waits() && f.cursor == 0
}

// resume lists the flows of an endpoint whose pause between large fragments has ended.
func (m *Module) resume(ep *Endpoint) {
	if ep.id.State() != stateConnected {
		return
	}
	if ep.bulk() {
		ep.beginBulk()
	}
	m.sched.rearm(ep)
}

func (*checker) checkPauses(m *Module) error {
	listed, err := m.sched.pauses.Check(func(ep *Endpoint) bool { return ep.err == nil })
	if err != nil {
		return err
	}
	for _, ep := range m.peers.All() {
		if ep != nil && ep.id.Counted && ep.counts.pause.Waits() && ep.err == nil {
			listed--
		}
	}
	if listed != 0 {
		return fmt.Errorf("%d more endpoints pause on the list than are there", listed)
	}
	return nil
}
