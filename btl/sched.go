package btl

import (
	"errors"
	"fmt"
)

// scheduler holds the flows that have packets to send and are allowed to send. Flows that have
// become active and have not used up their quantum of bytes are served first. All other flows are
// served in turn.
//
//	arm --> newFlows --+
//	   \               +--> next --> a turn --> endTurn --> oldFlows, last
//	    +-> oldFlows --+                  \
//	                                       +--> rearm: off the lists, nothing to send
type scheduler struct {
	newFlows flowList    // flows that may send and are served first
	oldFlows flowList    // other flows that may send, in the order of their turns
	blocked  bool        // no listed flow could get a buffer, or room in its channel
	pausing  []*Endpoint // endpoints with pausing large fragments (chunk_backoff.go)
	pauseEnd Time        // when the first pause ends; 0: no endpoint pauses
	packs    int         // endpoints with an open Pack
}

// waiting is the number of flows that have packets to send and are allowed to send.
func (s *scheduler) waiting() int { return s.newFlows.count + s.oldFlows.count }

// ready reports whether a listed flow may find a free buffer and room in its channel, so that a
// call of Progress is due.
func (s *scheduler) ready() bool { return s.waiting() > 0 && !s.blocked }

// unblock records that a buffer, or room in a channel, has become free.
func (s *scheduler) unblock() { s.blocked = false }

// next returns the flow to be served next, and must not be called if no flow is listed.
func (s *scheduler) next() *flow {
	if f := s.newFlows.first; f != nil {
		return f
	}
	return s.oldFlows.first
}

// arm lists the flows of an endpoint that may send.
func (s *scheduler) arm(ep *Endpoint) {
	s.armFlow(&ep.small)
	s.armFlow(&ep.large)
}

func (s *scheduler) armFlow(f *flow) {
	if f.list == nil { // inlined: during a burst the flow is already listed
		s.enlist(f)
	}
}

func (s *scheduler) enlist(f *flow) {
	if !f.may() {
		return
	}
	s.blocked = false
	if f.deficit > 0 {
		s.newFlows.pushBack(f)
	} else {
		s.oldFlows.pushBack(f)
	}
}

// rearm lists the flows of an endpoint that may send, and removes the other flows of the endpoint
// from the lists.
func (s *scheduler) rearm(ep *Endpoint) {
	for _, f := range [...]*flow{&ep.small, &ep.large} {
		if f.list != nil && !f.may() {
			f.list.remove(f)
		}
		s.armFlow(f)
	}
}

func (s *scheduler) disarm(ep *Endpoint) {
	for _, f := range [...]*flow{&ep.small, &ep.large} {
		if f.list != nil {
			f.list.remove(f)
		}
	}
}

// endTurn moves a flow behind all others, or removes the flow if it may not send any more.
func (s *scheduler) endTurn(f *flow) {
	f.list.remove(f)
	if f.may() {
		s.oldFlows.pushBack(f)
	}
}

// The argument c has counted the open Packs.
func (s *scheduler) check(c *checker, p *peerTable) error {
	if c.packs != s.packs {
		return fmt.Errorf("%d packs are open, %d counted", c.packs, s.packs)
	}
	fresh, old := 0, 0
	for _, ep := range p.All() {
		if ep == nil {
			continue
		}
		for _, f := range [...]*flow{&ep.small, &ep.large} {
			switch f.list {
			case &s.newFlows:
				fresh++
			case &s.oldFlows:
				old++
			}
		}
	}
	if err := s.newFlows.check(p, fresh); err != nil {
		return fmt.Errorf("new flows: %w", err)
	}
	if err := s.oldFlows.check(p, old); err != nil {
		return fmt.Errorf("old flows: %w", err)
	}
	return nil
}

type flowList struct {
	first, last *flow
	count       int
}

func (l *flowList) pushBack(f *flow) {
	f.list, f.prev, f.next = l, l.last, nil
	if l.last == nil {
		l.first = f
	} else {
		l.last.next = f
	}
	l.last = f
	l.count++
}

func (l *flowList) remove(f *flow) {
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
	f.list, f.prev, f.next = nil, nil, nil
	l.count--
}

func (l *flowList) check(p *peerTable, members int) error {
	n := 0
	var last *flow
	for f := l.first; f != nil && n <= l.count; f = f.next {
		n++
		if !p.Holds(f.ep) || f.list != l {
			return errors.New("an endpoint that does not belong there")
		}
		if f.prev != last {
			return errors.New("its links do not match")
		}
		last = f
	}
	if n != l.count || n != members || l.last != last {
		return fmt.Errorf("%d members, %d counted, %d flows say so", n, l.count, members)
	}
	return nil
}
