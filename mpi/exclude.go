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

// The constants below are the codes with which a rank refuses a connection.
const (
	refusedStranger uint16 = iota + 1 // no rank of this job
	refusedExcluded                   // a rank that is considered dead
)

// askMost is the longest wait for the answer of a silent rank. If PeerTimeout is shorter than
// askMost, the longest wait is PeerTimeout.
const askMost = 5 * time.Second

// question asks a silent rank whether it considers this rank dead, because possibly this rank was
// the one that did not answer. If the silent rank refuses the connection, it considers this rank
// dead. If the silent rank does not refuse the connection, this rank records the silent rank as
// dead, because messages in transit to it are lost.
type question struct {
	rank  int
	peer  *pml.Peer
	until btl.Time
	why   error // why the rank is considered dead
}

// admit decides whether a process may connect. admit accepts only ranks of this job that this rank
// does not consider dead.
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

// rankCalled returns the rank whose module has the given label. rankCalled returns false if no
// rank has the label.
func (e *engine) rankCalled(label string) (int, bool) {
	number, ok := strings.CutPrefix(label, labelPrefix)
	rank, err := strconv.Atoi(number)
	return rank, ok && err == nil && rank >= 0 && rank < len(e.names)
}

// exclude ends this rank's part in the job, because the other ranks continue without this rank.
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

// memberGone handles the end of an endpoint to a rank. memberGone ignores the end of an endpoint
// to a rank that is already recorded as dead.
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

// lost reports whether no further message can come from a rank. No further message can come from
// a rank that is dead, or that was asked whether it considers this rank dead.
func (f *failures) lost(rank int) bool {
	asked := func(q question) bool { return q.rank == rank }
	return f.dead[rank] != nil || slices.ContainsFunc(f.asked, asked)
}

// ask asks a silent rank whether it considers this rank dead. The other ranks learn of the silent
// rank's death only after the answer of this rank, or after askMost.
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

// lookAtAnswers handles the answers of silent ranks to the question whether they consider this
// rank dead. Unless the asked rank has answered that it considers this rank dead, this rank
// records the asked rank as dead.
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
