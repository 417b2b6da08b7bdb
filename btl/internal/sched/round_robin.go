package sched

import (
	"fmt"

	"gobtl/internal/list"
)

// Flow is the entry of one send queue in a RoundRobin. The type parameter E is the type of the
// queue's owner.
type Flow[E any] struct {
	Owner   E
	at      list.Node[*Flow[E]]
	Deficit int // bytes that the flow may still send in this turn
}

// Init makes f a flow (send queue) of the given owner that is not listed. The flow may send
// deficitBytes in its first turn.
func (f *Flow[E]) Init(owner E, deficitBytes int) {
	*f = Flow[E]{Owner: owner, Deficit: deficitBytes}
}

// Next returns the flow (send queue) after flow f in its list, or nil if f is the last flow or is
// not listed.
func (f *Flow[E]) Next() *Flow[E] { return f.at.Next() }

// Listed reports whether a RoundRobin lists the flow.
func (f *Flow[E]) Listed() bool { return f.at.Listed() }

// Charge reduces the deficit of a flow (send queue) by sizeBytes, which is the number of bytes that
// the flow has sent.
func (f *Flow[E]) Charge(sizeBytes int) { f.Deficit -= sizeBytes }

// BeginTurn adds a quantum of bytes to the deficit of a flow (send queue) that has used up its
// previous turn.
func (f *Flow[E]) BeginTurn(quantumBytes int) {
	if f.Deficit <= 0 {
		f.Deficit += quantumBytes
	}
}

// RoundRobin lists the flows (send queues) that have fragments to send and are allowed to send. A
// zero RoundRobin lists no flow.
type RoundRobin[E any] struct {
	fresh   list.List[*Flow[E]] // flows that are served first
	old     list.List[*Flow[E]] // flows that are not fresh, in the order of their turns
	waiting int                 // number of flows in both lists
	Blocked bool                // no listed flow could get a buffer, or room in its channel
}

// Waiting returns the number of listed flows.
func (r *RoundRobin[E]) Waiting() int { return r.waiting }

// SetBlocked records whether the listed flows (send queues) cannot send at present, for lack of
// buffers or of room in their channels.
func (r *RoundRobin[E]) SetBlocked(blocked bool) { r.Blocked = blocked }

// Fresh returns the first of the fresh flows, which are the send queues that are served first, or
// nil if no flow is fresh.
func (r *RoundRobin[E]) Fresh() *Flow[E] { return r.fresh.First() }

// Next returns the flow (send queue) to be served next, or nil if no flow is listed.
func (r *RoundRobin[E]) Next() *Flow[E] {
	if f := r.fresh.First(); f != nil {
		return f
	}
	return r.old.First()
}

// Add adds a flow (send queue) to one of the lists. The flow must be allowed to send, and must not
// be listed yet.
func (r *RoundRobin[E]) Add(f *Flow[E]) {
	r.Blocked = false
	r.waiting++
	if f.Deficit > 0 {
		r.fresh.PushBack(&f.at, f)
	} else {
		r.old.PushBack(&f.at, f)
	}
}

// Remove removes a flow from its list. If the flow is not listed, Remove does nothing.
func (r *RoundRobin[E]) Remove(f *Flow[E]) {
	if f.Listed() {
		f.at.Remove()
		r.waiting--
	}
}

// EndTurn ends the turn of a listed flow. If the argument "more" of EndTurn is true, the flow has
// more to send, and EndTurn makes it the last of all listed flows. If the argument "more" of
// EndTurn is false, EndTurn removes the flow from its list.
func (r *RoundRobin[E]) EndTurn(f *Flow[E], more bool) {
	r.Remove(f)
	if more {
		r.waiting++
		r.old.PushBack(&f.at, f)
	}
}

// Check returns an error if the lists are inconsistent, or do not contain all listed flows, and nil
// otherwise. The argument "listed" of Check is the number of all listed flows.
func (r *RoundRobin[E]) Check(listed int) error {
	if err := r.fresh.Check(); err != nil {
		return fmt.Errorf("fresh flows: %w", err)
	}
	if err := r.old.Check(); err != nil {
		return fmt.Errorf("old flows: %w", err)
	}
	if n := r.fresh.Len() + r.old.Len(); n != listed || n != r.waiting {
		return fmt.Errorf("the lists have %d flows, %d counted, and %d flows are listed", n, r.waiting,
			listed)
	}
	return nil
}
