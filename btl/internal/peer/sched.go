package peer

import (
	"fmt"

	"gobtl/btl/internal/backoff"
	"gobtl/btl/internal/sched"
)

// Scheduler lists the flows (send queues) that have packets to send and are allowed to send, in the
// order of their turns.
type Scheduler struct {
	sched.RoundRobin[*Endpoint]
	Pauses backoff.Pauses[*Endpoint] // endpoints with pausing large fragments (chunk_backoff.go)
	Packs  int                       // endpoints with an open Pack
}

// Rearm adds each of an endpoint's two send queues to the scheduler's lists if the queue may send,
// and otherwise removes the queue from these lists.
func (s *Scheduler) Rearm(ep *Endpoint) {
	for _, f := range [...]*flow{&ep.small, &ep.large.flow} {
		switch may := f.may(); {
		case may && !f.Listed():
			s.Add(&f.Flow)
		case !may && f.Listed():
			s.Remove(&f.Flow)
		}
	}
}

func (s *Scheduler) disarm(ep *Endpoint) {
	for _, f := range [...]*flow{&ep.small, &ep.large.flow} {
		s.Remove(&f.Flow)
	}
}

// check returns an error if the Scheduler's counts differ from those of the Checker c, which has
// counted the open Packs.
func (s *Scheduler) check(c *Checker, p *peerTable) error {
	if c.packs != s.Packs {
		return fmt.Errorf("%d packs are open, %d counted", c.packs, s.Packs)
	}
	listed := 0
	for _, ep := range p.All() {
		if ep == nil {
			continue
		}
		for _, f := range [...]*flow{&ep.small, &ep.large.flow} {
			if f.Listed() {
				listed++
			}
		}
	}
	return s.Check(listed)
}
