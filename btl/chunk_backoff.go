package btl

import (
	"fmt"
	"time"
)

// Over a reliable fabric, a peer without memory for a chunked fragment sends a Nack, and this
// side sends the whole fragment again. Before each new attempt to send a refused fragment, the
// endpoint sends no large fragments for some time. The time without large fragments doubles from
// backoffMin to backoffMax, until a large fragment has arrived at the peer. Small fragments do
// not pause.
const (
	backoffMin = 100 * time.Microsecond
	backoffMax = 100 * time.Millisecond
)

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
	m.backOff(ep)
	m.sched.rearm(ep)
}

func (m *Module) backOff(ep *Endpoint) {
	c := ep.counts
	if c.pauseUntil != 0 {
		return
	}
	c.pause = min(max(2*c.pause, backoffMin), backoffMax)
	c.pauseUntil = m.now.Add(c.pause)
	m.sched.pausing = append(m.sched.pausing, ep)
	if end := &m.sched.pauseEnd; *end == 0 || c.pauseUntil < *end {
		*end = c.pauseUntil
	}
}

// pauses reports whether the next large fragment f has to wait for the end of a pause. A partly
// sent fragment does not wait.
func (ep *Endpoint) pauses(f *Fragment) bool {
	return ep.id.Counted && ep.counts.pauseUntil != 0 && f.cursor == 0
}

// endPauses ends the pauses between large fragments that have lasted long enough.
func (m *Module) endPauses() {
	s := &m.sched
	if s.pauseEnd == 0 || m.now < s.pauseEnd {
		return
	}
	s.pauseEnd = 0
	n := 0
	for _, ep := range s.pausing {
		until := ep.counts.pauseUntil
		if m.now < until {
			if s.pauseEnd == 0 || until < s.pauseEnd {
				s.pauseEnd = until
			}
			s.pausing[n] = ep
			n++
			continue
		}
		ep.counts.pauseUntil = 0
		if ep.id.State() != stateConnected {
			continue
		}
		if ep.bulk() {
			ep.beginBulk()
		}
		s.rearm(ep)
	}
	clear(s.pausing[n:])
	s.pausing = s.pausing[:n]
}

func (m *Module) checkPauses(*checker) error {
	s := &m.sched
	listed := len(s.pausing)
	for i, ep := range s.pausing {
		if until := ep.counts.pauseUntil; until == 0 || until < s.pauseEnd || s.pauseEnd == 0 {
			return fmt.Errorf("pause %d ends at %d, the first at %d", i, until, s.pauseEnd)
		}
		if ep.err != nil {
			listed--
		}
	}
	for _, ep := range m.peers.All() {
		if ep != nil && ep.id.Counted && ep.counts.pauseUntil != 0 && ep.err == nil {
			listed--
		}
	}
	if listed != 0 {
		return fmt.Errorf("%d more endpoints pause on the list than are there", listed)
	}
	return nil
}
