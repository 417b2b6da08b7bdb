package peer

import (
	"fmt"

	"gobtl/btl/internal/backoff"
	"gobtl/btl/internal/sched"
)

// Scheduler holds the flows that have packets to send and are allowed to send, in the order of
// their turns.
type Scheduler struct {
	sched.RoundRobin[*Endpoint]
	Pauses backoff.Pauses[*Endpoint] // endpoints with pausing large fragments (chunk_backoff.go)
	Packs  int                       // endpoints with an open Pack
}

// arm lists the flows of an endpoint that may send.
func (s *Scheduler) arm(ep *Endpoint) {
	s.armFlow(&ep.Small)
	s.armFlow(&ep.Large)
}

func (s *Scheduler) armFlow(f *flow) {
	if !f.Listed() { // inlined: during a burst the flow is already listed
		s.enlist(f)
	}
}

func (s *Scheduler) enlist(f *flow) {
	if f.may() {
		s.Add(&f.Flow)
	}
}

// Rearm lists the flows of an endpoint that may send, and removes the other flows of the endpoint
// from the lists.
func (s *Scheduler) Rearm(ep *Endpoint) {
	for _, f := range [...]*flow{&ep.Small, &ep.Large} {
		if f.Listed() && !f.may() {
			s.Remove(&f.Flow)
		}
		s.armFlow(f)
	}
}

func (s *Scheduler) disarm(ep *Endpoint) {
	for _, f := range [...]*flow{&ep.Small, &ep.Large} {
		if f.Listed() {
			s.Remove(&f.Flow)
		}
	}
}

// endTurn moves a flow behind all others, or removes the flow if it may not send any more.
func (s *Scheduler) endTurn(f *flow) { s.EndTurn(&f.Flow, f.may()) }

// The argument c has counted the open Packs.
func (s *Scheduler) check(c *Checker, p *peerTable) error {
	if c.packs != s.Packs {
		return fmt.Errorf("%d packs are open, %d counted", c.packs, s.Packs)
	}
	listed := 0
	for _, ep := range p.All() {
		if ep == nil {
			continue
		}
		for _, f := range [...]*flow{&ep.Small, &ep.Large} {
			if f.Listed() {
				listed++
			}
		}
	}
	return s.Check(listed)
}
