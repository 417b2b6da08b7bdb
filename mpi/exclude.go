package mpi

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"gobtl/btl"
	"gobtl/pml"
)

// The constants below are the codes that a rank sends when it refuses a connection.
const (
	refusedStranger uint16 = iota + 1 // no rank of this job
	refusedExcluded                   // a rank that is considered dead
)

// When a rank has become silent, this rank asks the silent rank whether it considers this rank
// dead. The rank that asks waits for the answer of the silent rank at most for the time askMost, or
// for PeerTimeout if PeerTimeout is shorter.
const askMost = 5 * time.Second

// A silent rank, which does not answer any more, might consider this rank dead, because this rank
// is silent from the point of view of the silent rank. A question is a new connection to the silent
// rank, to find out whether the silent rank considers this rank dead. A silent rank that considers
// this rank dead refuses the connection. If the silent rank does not refuse the connection, this
// rank records the silent rank as dead, because messages in transit to the silent rank are lost.
type question struct {
	rank  int
	peer  *pml.Peer
	until btl.Time
	why   error // why the rank is considered dead
}

// The method "admit" decides whether a process is allowed to connect to this rank. Only ranks of
// this job that this rank does not consider dead are allowed to connect.
func (e *engine) admit(r btl.Request) btl.Verdict {
	rank, ok := e.rankCalled(string(r.Label))
	switch {
	case !ok || !r.Is(e.names[rank]):
		return btl.Refuse(refusedStranger)
	case e.failures.dead[rank] != nil:
		return btl.Refuse(refusedExcluded)
	}
	return btl.Accept()
}

// rankCalled returns the rank whose module has the given label. The second result of rankCalled is
// true if a rank's module has the given label, and otherwise false.
func (e *engine) rankCalled(label string) (int, bool) {
	number, ok := strings.CutPrefix(label, labelPrefix)
	rank, err := strconv.Atoi(number)
	return rank, ok && err == nil && rank >= 0 && rank < len(e.names)
}

// The method "exclude" ends the participation of this rank in the job, because the other ranks
// continue without this rank.
func (e *engine) exclude() {
	if e.broken == nil {
		e.broken = ErrExcluded
	}
}

// saysExcluded reports whether an endpoint has ended because its peer considers this rank dead.
func saysExcluded(why error) bool {
	var ended *btl.EndedError
	var refused *btl.RefusedError
	return errors.As(why, &ended) && !ended.Owner ||
		errors.As(why, &refused) && refused.Code == refusedExcluded
}

// memberGone is called when the connection (endpoint) to a rank has ended, and records the rank as
// dead or asks whether the rank considers this rank dead. If the rank is already recorded as dead,
// memberGone does nothing.
func (e *engine) memberGone(p *pml.Peer, m *member) {
	f, why := &e.failures, p.Err()
	inOrder := errors.Is(why, btl.ErrPeerClosed) || errors.Is(why, btl.ErrClosed)
	silent := errors.Is(why, btl.ErrPeerDead) || errors.Is(why, btl.ErrPeerRestarted)
	switch {
	case f.dead[m.rank] != nil || f.leaving && inOrder:
	case saysExcluded(why):
		e.exclude()
	case !m.second && silent:
		e.ask(m.rank, why)
	case !m.second:
		e.bury(m.rank, why)
	}
}

// The method "lost" reports whether a rank is dead, or is a silent rank that this rank has asked
// whether it considers this rank dead. No message can arrive any more from a rank for which the
// method "lost" returns true.
func (f *failures) lost(rank int) bool {
	asked := func(q question) bool { return q.rank == rank }
	return f.dead[rank] != nil || slices.ContainsFunc(f.asked, asked)
}

// The method "ask" asks a rank that does not answer any more whether it considers this rank dead.
// When the silent rank has answered, or when askMost has passed, this rank informs the other ranks
// of the silent rank's death.
func (e *engine) ask(rank int, why error) {
	now := e.now()
	ep, err := e.m.Connect(now, e.names[rank])
	if err != nil {
		e.bury(rank, why)
		return
	}
	p := e.l.Peer(ep)
	p.Context = &member{rank: rank, second: true}
	wait := min(askMost, e.m.Config().PeerTimeout)
	e.failures.asked = append(e.failures.asked, question{rank, p, now.Add(wait), why})
	for _, c := range e.failures.comms {
		c.lose(rank, why)
	}
}

// lookAtAnswers evaluates the answers of silent ranks to the question whether the silent ranks
// consider this rank dead. Unless the asked rank has answered that it considers this rank dead,
// this rank records the asked rank as dead.
func (e *engine) lookAtAnswers() {
	f, now := &e.failures, e.now()
	var over []question
	f.asked = slices.DeleteFunc(f.asked, func(q question) bool {
		done := q.peer.Err() != nil || q.peer.Endpoint().Connected() || now >= q.until
		if done {
			over = append(over, q)
		}
		return done
	})
	for _, q := range over {
		q.peer.Endpoint().Abort()
		e.bury(q.rank, q.why)
	}
	f.news = f.news || len(f.asked) > 0
}
