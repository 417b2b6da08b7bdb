package swarm

import (
	"errors"
	"time"

	"gobtl/btl"
)

// RequestPlan says how the application of a node answers connection requests. The zero value means
// that the application has no function for Admit, so that all peers are accepted.
type RequestPlan struct {
	Keep           float64 // probability to keep a request
	WaitMost       time.Duration
	Refuse, MoveTo float64 // probabilities of these decisions, at once or later
	Forget         float64 // probability never to decide a kept request
}

// requestsWait is the longest time for which a request is kept.
const requestsWait = 500 * time.Millisecond

// requestsOdds is the probability of a run in which some applications do not accept every peer.
const requestsOdds = 0.3

// drawRequests draws which nodes keep, refuse and move connection requests, from a separate random
// source so that all other draws are unchanged.
func (p *Plan) drawRequests(opts Options) {
	d := newDraw(p.Seed, 0x4E97)
	if !d.chance(requestsOdds) || opts.without("kept") {
		return
	}
	for i := range p.Nodes {
		if d.chance(0.3) {
			continue
		}
		r := RequestPlan{Keep: d.scale(0.1, 1), WaitMost: d.dur(time.Millisecond, requestsWait)}
		if d.chance(0.5) && !opts.without("refused") {
			r.Refuse, r.Forget = d.scale(0.05, 0.5), d.scale(0.05, 0.5)
		}
		if d.chance(0.5) && len(p.Nodes) > 2 && !opts.without("moved") {
			r.MoveTo = d.scale(0.05, 0.5)
		}
		p.Nodes[i].Requests = r
	}
}

// admit answers a connection request.
func (l *life) admit(r btl.Request) btl.Verdict {
	w, p, d := l.w, &l.host.plan.Requests, l.random.d
	switch {
	case w.phase != phaseFaults:
		return btl.Accept()
	case !d.chance(p.Keep):
		return l.verdict()
	case !r.MayKeep():
		if p.Refuse == 0 {
			return btl.Accept()
		}
		l.turnedAway = true
		return btl.Defer(1)
	}
	wait := d.dur(time.Millisecond, p.WaitMost+time.Millisecond)
	w.res.Kept++
	l.keptOf[r.Address]++
	mine := l.keptOf[r.Address]
	if d.chance(p.Forget) {
		l.turnedAway = true
		return btl.Keep(wait)
	}
	until := w.net.Now().Add(wait.Truncate(time.Millisecond))
	after := d.dur(time.Microsecond, wait-wait/10)
	if p.Forget > 0 {
		after = d.dur(time.Microsecond, 2*wait)
		l.turnedAway = true // the decision may be late
	}
	w.net.After(after, func() {
		if l.closed {
			return
		}
		err := r.Decide(w.net.Now(), l.verdict())
		switch {
		case err == nil, errors.Is(err, btl.ErrClosed) && l.closing:
		case errors.Is(err, btl.ErrNoRequest) && w.net.Now() >= until:
		case errors.Is(err, btl.ErrNoRequest) && l.keptOf[r.Address] >= mine+2: // replaced
		default:
			w.fail("node %s: deciding a kept request: %w", l.host.node.Name(), err)
		}
		l.host.node.Kick()
	})
	return btl.Keep(wait)
}

// verdict draws the decision about a request, without keeping the request.
func (l *life) verdict() btl.Verdict {
	p, d := &l.host.plan.Requests, l.random.d
	if d.chance(p.Refuse) {
		l.turnedAway = true
		return btl.Refuse(uint16(d.IntN(1 << 16)))
	}
	if d.chance(p.MoveTo) {
		if to := l.w.hosts[d.IntN(len(l.w.hosts))].life; to != nil && to != l {
			l.w.res.Moved++
			l.moves = true
			return btl.MoveTo(to.names)
		}
	}
	return btl.Accept()
}

// wasMoved reports whether the peer of an endpoint may be another module than the one that the
// application has named.
func (e *end) wasMoved() bool {
	if e.meant == nil {
		return false
	}
	return e.meant.moves || peerIncarnationOf(e.ep) != e.meant.inc
}

// turnedAway reports whether the owner of a module that the endpoint has asked may have refused it.
func (e *end) turnedAway(target *life) bool {
	return target != nil && target.turnedAway || e.meant != nil && e.meant.turnedAway
}
