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

// Codes of Refuse.
const (
	refusedStranger uint16 = iota + 1 // no rank of this job
	refusedExcluded                   // a rank that is considered dead
)

// askMost bounds the time for a question to a silent rank. PeerTimeout bounds it, too.
const askMost = 5 * time.Second

// question asks a silent rank whether it considers this rank dead, since possibly it was this rank
// that did not answer in time. A refused endpoint means Yes. Any other result counts as no answer,
// and the silent rank is considered dead, because the messages on their way to it are lost.
type question struct {
	rank  int
	peer  *pml.Peer
	until btl.Time
	why   error // why the rank is considered dead
}

// admit reports whether a process may connect: only ranks of this job that are not considered dead
// may.
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

// rankCalled returns the rank whose module has the label.
func (e *engine) rankCalled(label string) (int, bool) {
	number, ok := strings.CutPrefix(label, labelPrefix)
	rank, err := strconv.Atoi(number)
	return rank, ok && err == nil && rank >= 0 && rank < len(e.names)
}

// exclude ends this rank's part in the job. The other ranks continue without it.
func (e *engine) exclude() {
	if e.broken == nil {
		e.broken = ErrExcluded
	}
}

// saysExcluded reports whether an endpoint has ended because its peer considers this rank dead.
// Package mpi aborts endpoints, and refuses ranks of the job, for no other reason.
func saysExcluded(why error) bool {
	var ended *btl.EndedError
	var refused *btl.RefusedError
	return errors.As(why, &ended) && !ended.Owner ||
		errors.As(why, &refused) && refused.Code == refusedExcluded
}

// memberGone handles the end of a rank's endpoint. It ignores the endpoint of a rank that is
// already recorded as dead.
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

// lost reports whether no message can come from a rank any more, because that rank or this one is
// dead.
func (f *failures) lost(rank int) bool {
	asked := func(q question) bool { return q.rank == rank }
	return f.dead[rank] != nil || slices.ContainsFunc(f.asked, asked)
}

// ask asks a silent rank whether it considers this rank dead. The other ranks learn of its death
// only after that.
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

// lookAtAnswers records as dead each asked rank that has not answered that it considers this rank
// dead.
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
