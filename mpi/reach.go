package mpi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gobtl/btl"
	"gobtl/internal/plain"
)

const (
	// At the start of a job, ranks try to connect in at most reachRounds rounds. Each round takes at
	// most the time reachRound. A rank that is not connected after all rounds counts as unreachable.
	// After each round, all ranks wait for each other in a fence of the launcher, so that even a slow
	// rank polls its sockets at least once in each round. A handshake between two ranks takes four
	// polls.
	reachRounds = 5
	reachRound  = 200 * time.Millisecond
	// reachAllHosts is the largest number of hosts for which every pair of hosts is tested. In a
	// job with more than reachAllHosts hosts, each host tests those hosts whose numbers differ from
	// its own by a power of two.
	reachAllHosts = 16
	// missedMost is the largest length of a rank's list of unreachable ranks.
	missedMost = 4
)

// The type "missed" describes a failed connection from the rank From to the rank To.
type missed struct {
	From, To int
	Ends     string // the local and the remote address
	Why      string // further information, mostly empty
}

// reachHosts connects this rank to a rank on each remote host, and returns the failed connections
// of all ranks of the job. The result of reachHosts is the same at all ranks. The argument "try" is
// the number of earlier calls of reachHosts at this rank.
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

// reachRound polls the transport until the given ranks are connected, or the time of the round is
// over. reachRound returns at most missedMost of the given ranks that are not connected.
func (w *World) reachRound(ctx context.Context, to []int) ([]missed, error) {
	e := w.e
	e.lock()
	defer e.unlock()
	wait := e.waiters.get(1)
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

// The function "misses" reports whether there is no connection to a rank yet. The first call of
// "misses" for a rank begins to open the connection to the rank. The caller must hold mu.
func misses(e *engine, rank int) bool {
	p, err := e.peer(rank)
	return err != nil || !p.Endpoint().Connected()
}

// whyMissed returns the reason why there is no connection to a rank, or an empty string if the
// reason is not known. The caller must hold mu.
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

// tellMissed exchanges the lists of unreachable ranks between all ranks of the job.
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
		for i, m := range theirs {
			if m.From != rank || m.To < 0 || m.To >= len(values) || i >= missedMost {
				err = ErrRank
			}
			theirs[i].Ends, theirs[i].Why = plain.Line(m.Ends), plain.Line(m.Why)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: rank %d says %.80q", ErrAddress, rank, value)
		}
		all = append(all, theirs...)
	}
	return all, nil
}

// missedError returns the error of a job whose ranks cannot reach each other. For each network that
// was tried, the text of the error names one pair of ranks that are not connected.
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

// The function "partners" returns the ranks on remote hosts to which a rank connects at the start
// of the job. If a rank is rank number i on its host, its partner on a remote host with n ranks is
// rank number i modulo n on that host. In a job with more than reachAllHosts hosts, a rank has
// partners only on the hosts whose numbers differ from the number of its own host by a power of
// two.
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
