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

// Because a rank that does not answer any more (a silent rank) may itself consider this rank dead,
// this rank sends a probe to each silent rank (see the type "question"). This rank waits for the
// answer to a probe for at most the shorter of askMost and PeerTimeout.
const askMost = 5 * time.Second

// A question is a probe of a silent rank, which is a rank that does not answer any more. After a
// network failure between two ranks, neither of them gets an answer of the other, and each of them
// may consider the other one dead. The probe is a new connection to the silent rank, which
// refuses the connection (refusedExcluded) if it considers this rank dead. If the silent rank
// accepts the connection or does not answer, this rank records the silent rank as dead, because
// messages in transit to the silent rank are lost.
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

// memberGone is called when the connection (endpoint) to a rank has ended. If the rank has become
// silent, memberGone sends a probe to it (see the method "ask"). If the rank has ended the
// connection because it considers this rank dead, memberGone ends this rank's participation in the
// job. If the connection has ended for a reason that is neither silence nor exclusion, memberGone
// records the rank as dead. If the rank is already recorded as dead, memberGone does nothing.
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

// The method "lost" reports whether a rank is dead, or is a silent rank to which this rank has sent
// a probe (see the type "question"). No message can arrive any more from a rank for which the
// method "lost" returns true.
func (f *failures) lost(rank int) bool {
	asked := func(q question) bool { return q.rank == rank }
	return f.dead[rank] != nil || slices.ContainsFunc(f.asked, asked)
}

// The method "ask" sends a probe to a silent rank, to find out whether the silent rank considers
// this rank dead. Unless the silent rank considers this rank dead, lookAtAnswers later records the
// silent rank as dead, and informs the other ranks.
func (e *engine) ask(rank int, why error) {
	now := e.now()
	ep, err := e.m.Connect(now, e.names[rank])
	if err != nil {
		e.bury(rank, why)
		return
	}
	p := e.l.Peer(ep)
	p.Context, p.Number = &member{rank: rank, second: true}, 0
	wait := min(askMost, e.m.Config().PeerTimeout)
	e.failures.asked = append(e.failures.asked, question{rank, p, now.Add(wait), why})
	for _, c := range e.failures.comms {
		c.lose(rank, why)
	}
}

// lookAtAnswers ends the probes of silent ranks that were answered or have reached their time
// limit, and records the probed ranks as dead. If a silent rank has answered that it considers this
// rank dead, memberGone has already ended this rank's participation in the job, and lookAtAnswers
// is not called.
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
