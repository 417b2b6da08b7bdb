package btl

import (
	"fmt"

	"gobtl/btl/internal/backoff"
	"gobtl/btl/internal/sched"
)

// scheduler holds the flows that have packets to send and are allowed to send, in the order of
// their turns.
type scheduler struct {
	sched.RoundRobin[*Endpoint]
	pauses backoff.Pauses[*Endpoint] // endpoints with pausing large fragments (chunk_backoff.go)
	packs  int                       // endpoints with an open Pack
}

// arm lists the flows of an endpoint that may send.
func (s *scheduler) arm(ep *Endpoint) {
	s.armFlow(&ep.small)
	s.armFlow(&ep.large)
}

func (s *scheduler) armFlow(f *flow) {
	if !f.Listed() { // inlined: during a burst the flow is already listed
		s.enlist(f)
	}
}

func (s *scheduler) enlist(f *flow) {
	if f.may() {
		s.Add(&f.Flow)
	}
}

// rearm lists the flows of an endpoint that may send, and removes the other flows of the endpoint
// from the lists.
func (s *scheduler) rearm(ep *Endpoint) {
	for _, f := range [...]*flow{&ep.small, &ep.large} {
		if f.Listed() && !f.may() {
			s.Remove(&f.Flow)
		}
		s.armFlow(f)
	}
}

func (s *scheduler) disarm(ep *Endpoint) {
	for _, f := range [...]*flow{&ep.small, &ep.large} {
		if f.Listed() {
			s.Remove(&f.Flow)
		}
	}
}

// endTurn moves a flow behind all others, or removes the flow if it may not send any more.
func (s *scheduler) endTurn(f *flow) { s.EndTurn(&f.Flow, f.may()) }

// The argument c has counted the open Packs.
func (s *scheduler) check(c *checker, p *peerTable) error {
	if c.packs != s.packs {
		return fmt.Errorf("%d packs are open, %d counted", c.packs, s.packs)
	}
	listed := 0
	for _, ep := range p.All() {
		if ep == nil {
			continue
		}
		for _, f := range [...]*flow{&ep.small, &ep.large} {
			if f.Listed() {
				listed++
			}
		}
	}
	return s.Check(listed)
}
