package mpi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gobtl/btl"
)

const (
	// reachRounds and reachRound say when ranks that are not reached are given up: after so many
	// rounds of so long. Between two rounds all ranks meet at the launcher, so each has looked into
	// its sockets once in every round, however late it comes to that. A handshake takes four looks.
	reachRounds = 5
	reachRound  = 200 * time.Millisecond
	// reachAllHosts is the number of hosts up to which each is tried from each. Of more hosts those
	// are tried that are a power of two away.
	reachAllHosts = 16
	// missedMost bounds what a rank tells of those that it does not reach.
	missedMost = 4
)

// missed is a rank that another one does not reach.
type missed struct {
	From, To int
	Ends     string // of the way between them
	Why      string // what is known besides, mostly nothing
}

// reachHosts connects to a rank of each other host, and returns what the ranks of the job have
// missed: the same at all ranks. Try is how often that was done before.
func (w *World) reachHosts(ctx context.Context, try int) ([]missed, error) {
	if w.job.Nodes() < 2 || w.cfg.SkipReach {
		return nil, nil
	}
	to := partners(w.nodes, w.rank)
	for round := range reachRounds {
		own, err := w.reachRound(ctx, to)
		if err != nil {
			return nil, err
		}
		all, err := w.tellMissed(ctx, fmt.Sprintf("mpi-reach-%d-%d", try, round), own)
		if err != nil || len(all) == 0 || round == reachRounds-1 {
			return all, err
		}
	}
	return nil, nil
}

// reachRound drives the engine until all of some ranks are connected to, or a round is over, and
// returns those that are not.
func (w *World) reachRound(ctx context.Context, to []int) ([]missed, error) {
	e := w.e
	e.lock()
	defer e.unlock()
	wait := e.newWaiter(1)
	missing := func(rank int) bool { return misses(e, rank) }
	until := e.now().Add(reachRound)
	wait.ready = func() bool { return !slices.ContainsFunc(to, missing) || e.now() >= until }
	if err := e.wait(ctx, wait); err != nil {
		return nil, err
	}
	var own []missed
	for _, rank := range to {
		if missing(rank) && len(own) < missedMost {
			ends, why := endsOfWay(e, rank), whyMissed(e, rank)
			own = append(own, missed{From: w.rank, To: rank, Ends: ends, Why: why})
		}
	}
	return own, nil
}

// misses says whether a rank is not connected to. The first time it is connected to. mu is held.
func misses(e *engine, rank int) bool {
	p, err := e.peer(rank)
	return err != nil || !p.Endpoint().Connected()
}

// whyMissed is what is known of why a rank is not connected to. mu is held.
func whyMissed(e *engine, rank int) string {
	p, err := e.peer(rank)
	switch {
	case err != nil:
		return err.Error()
	case p.Err() != nil:
		return p.Err().Error()
	}
	return ""
}

// tellMissed tells the ranks of a job whom this one has missed, and hears it of all.
func (w *World) tellMissed(ctx context.Context, key string, own []missed) ([]missed, error) {
	var all []missed
	value, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	values, err := w.job.Exchange(ctx, key, value)
	if err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	for rank, value := range values {
		var theirs []missed
		err := json.Unmarshal(value, &theirs)
		for _, m := range theirs {
			if m.From != rank || m.To < 0 || m.To >= len(values) {
				err = ErrRank
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: rank %d says %.80q", ErrAddress, rank, value)
		}
		all = append(all, theirs...)
	}
	return all, nil
}

// missedError is the error of a job whose ranks do not reach each other: one pair for each network
// that was tried.
func missedError(tried []missed) error {
	err := fmt.Errorf("mpi: a rank does not reach another one: %w", btl.ErrUnreachable)
	for _, m := range tried {
		err = fmt.Errorf("%w: rank %d to %d: %s", err, m.From, m.To, m.Ends)
		if m.Why != "" {
			err = fmt.Errorf("%w (%s)", err, m.Why)
		}
	}
	return err
}

// partners are the ranks of other hosts that a rank connects to at once: of each host, or of those
// a power of two away, the one that has its own place there.
func partners(nodes []int, rank int) (to []int) {
	on := make([][]int, slices.Max(nodes)+1) // ranks by host
	for r, node := range nodes {
		on[node] = append(on[node], r)
	}
	place, step := slices.Index(on[nodes[rank]], rank), 1
	for d := 1; d < len(on); d += step {
		there := on[(nodes[rank]+d)%len(on)]
		to = append(to, there[place%len(there)])
		if len(on) > reachAllHosts {
			step = d
		}
	}
	return to
}
