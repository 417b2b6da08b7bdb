package sched

import (
	"errors"
	"fmt"
)

// Flow is the entry of one send queue in a RoundRobin. The type parameter E is the type of the
// queue's owner.
type Flow[E any] struct {
	Owner      E
	ListedIn   *list[E] // nil if the flow is not listed
	prev, next *Flow[E]
	Deficit    int // bytes that the flow may still send in this turn
}

// Init makes f a flow (send queue) of the given owner that is not listed. The flow may send
// deficitBytes in its first turn.
func (f *Flow[E]) Init(owner E, deficitBytes int) {
	*f = Flow[E]{Owner: owner, Deficit: deficitBytes}
}

// Next returns the flow (send queue) after flow f in the list that contains f, or nil if f is the
// last flow.
func (f *Flow[E]) Next() *Flow[E] { return f.next }

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
	fresh   list[E] // flows that are served first
	old     list[E] // flows that are not fresh, in the order of their turns
	Blocked bool    // no listed flow could get a buffer, or room in its channel
}

// Waiting returns the number of listed flows.
func (r *RoundRobin[E]) Waiting() int { return r.fresh.count + r.old.count }

// SetBlocked records whether the listed flows (send queues) cannot send, because they lack buffers
// or room in their channels.
func (r *RoundRobin[E]) SetBlocked(blocked bool) { r.Blocked = blocked }

// Fresh returns the first of the fresh flows, which are the send queues that are served first, or
// nil if no flow is fresh.
func (r *RoundRobin[E]) Fresh() *Flow[E] { return r.fresh.first }

// Next returns the flow (send queue) to be served next, or nil if no flow is listed.
func (r *RoundRobin[E]) Next() *Flow[E] {
	if f := r.fresh.first; f != nil {
		return f
	}
	return r.old.first
}

// Add adds a flow (send queue) to one of the lists. The flow must be allowed to send, and must not
// be listed yet.
func (r *RoundRobin[E]) Add(f *Flow[E]) {
	r.Blocked = false
	if f.Deficit > 0 {
		r.fresh.pushBack(f)
	} else {
		r.old.pushBack(f)
	}
}

// Remove removes a listed flow from its list.
func (r *RoundRobin[E]) Remove(f *Flow[E]) { f.ListedIn.remove(f) }

// EndTurn ends the turn of a listed flow. If the argument "more" of EndTurn is true, the flow has
// more to send, and EndTurn makes it the last of all listed flows. If the argument "more" of
// EndTurn is false, EndTurn removes the flow from its list.
func (r *RoundRobin[E]) EndTurn(f *Flow[E], more bool) {
	f.ListedIn.remove(f)
	if more {
		r.old.pushBack(f)
	}
}

// Check returns an error if the lists are inconsistent, or do not contain all listed flows, and nil
// otherwise. The argument "listed" of Check is the number of all flows whose field ListedIn is set.
func (r *RoundRobin[E]) Check(listed int) error {
	if err := r.fresh.check(); err != nil {
		return fmt.Errorf("fresh flows: %w", err)
	}
	if err := r.old.check(); err != nil {
		return fmt.Errorf("old flows: %w", err)
	}
	if n := r.fresh.count + r.old.count; n != listed {
		return fmt.Errorf("the lists have %d flows, and %d flows are listed", n, listed)
	}
	return nil
}

// list is a list of flows, linked in both directions.
type list[E any] struct {
	first, last *Flow[E]
	count       int
}

func (l *list[E]) pushBack(f *Flow[E]) {
	f.ListedIn, f.prev, f.next = l, l.last, nil
	if l.last == nil {
		l.first = f
	} else {
		l.last.next = f
	}
	l.last = f
	l.count++
}

func (l *list[E]) remove(f *Flow[E]) {
	if f.prev == nil {
		l.first = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next == nil {
		l.last = f.prev
	} else {
		f.next.prev = f.prev
	}
	f.ListedIn, f.prev, f.next = nil, nil, nil
	l.count--
}

// check returns an error if the links or the count of the list are wrong, or if a flow in the list
// is marked as belonging to a different list.
func (l *list[E]) check() error {
	n := 0
	var last *Flow[E]
	for f := l.first; f != nil && n <= l.count; f = f.next {
		n++
		if f.ListedIn != l {
			return errors.New("a flow that does not belong there")
		}
		if f.prev != last {
			return errors.New("its links do not match")
		}
		last = f
	}
	if n != l.count || l.last != last {
		return fmt.Errorf("%d flows, %d counted, or a wrong end", n, l.count)
	}
	return nil
}
