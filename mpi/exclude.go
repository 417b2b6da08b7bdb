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
	refusedExcluded                   // a rank that is taken for dead
)

// askMost bounds what a rank that has fallen silent is asked for, and so does PeerTimeout.
const askMost = 5 * time.Second

// question is what a rank that has fallen silent is asked: do you take me for dead? Maybe it was
// not the other one but this one that was out of breath. An endpoint that is refused is a Yes. All
// else is no answer: the rank is gone, for what was on its way to it is lost.
type question struct {
	rank  int
	peer  *pml.Peer
	until btl.Time
	why   error // it is gone
}

// admit says whether a process may connect: only ranks of this job that are not taken for dead may.
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

// rankCalled is the rank whose module has a label.
func (e *engine) rankCalled(label string) (int, bool) {
	number, ok := strings.CutPrefix(label, labelPrefix)
	rank, err := strconv.Atoi(number)
	return rank, ok && err == nil && rank >= 0 && rank < len(e.names)
}

// exclude ends this rank's part in the job: the others go on without it.
func (e *engine) exclude() {
	if e.broken == nil {
		e.broken = ErrExcluded
	}
}

// saysExcluded says whether an endpoint has ended because its peer takes this rank for dead: an
// owner of this package aborts endpoints, and refuses ranks of the job, for nothing else.
func saysExcluded(why error) bool {
	var ended *btl.EndedError
	var refused *btl.RefusedError
	return errors.As(why, &ended) && !ended.Owner ||
		errors.As(why, &refused) && refused.Code == refusedExcluded
}

// memberGone does what follows from the end of a rank's endpoint. A rank that was buried before has
// no say.
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

// lost says whether nothing can be had of a rank any more: it is dead, or this one is.
func (f *failures) lost(rank int) bool {
	asked := func(q question) bool { return q.rank == rank }
	return f.dead[rank] != nil || slices.ContainsFunc(f.asked, asked)
}

// ask asks a rank that has fallen silent. The others are told of its end after that.
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

// lookAtAnswers buries whoever was asked and has not said that this rank is the dead one.
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
