package swarm

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
)

// awayMax is the most that a node asks for by its Away.
const awayMax = 3 * time.Second

// drawAways draws how long each node's process announces to be without progress, and how much of
// such a time it grants to others.
func (p *Plan) drawAways() {
	d := newDraw(p.Seed, 0xA3A1)
	for i := range p.Nodes {
		c := &p.Nodes[i].Config
		if d.chance(0.3) {
			c.Away = d.dur(time.Millisecond, awayMax)
		}
		switch d.IntN(4) {
		case 0:
			c.AwayMax = -1
		case 1:
			c.AwayMax = d.dur(time.Millisecond, awayMax)
		}
	}
}

// granted is how much longer than PeerTimeout the peer of an end may be silent: as long as it has
// asked for, in whole milliseconds, if that much is granted.
func (e *end) granted() time.Duration {
	e.learn()
	peer := e.peer
	if !e.known {
		peer = e.w.byInc[peerIncarnationOf(e.ep)] // whom it is trying to reach
	}
	most := e.life.cfg.AwayMax
	switch {
	case peer == nil || most < 0:
		return 0
	case most == 0:
		most = awayMax // much more is the default
	}
	return min(peer.cfg.Away.Truncate(time.Millisecond), most)
}

// judgeDead judges ErrPeerDead. The error is right only if for PeerTimeout plus the time granted to
// the peer no packet of the connection has arrived, or no new acknowledgement. It must not be late
// either: at most slack after the time-out of the oldest unanswered send.
func (e *end) judgeDead() string {
	w := e.w
	now := w.net.Now()
	timeout := e.life.cfg.PeerTimeout + e.granted()
	node := e.life.host.index
	heard := max(w.heard[heardKey{node, e.tag}], w.heard[heardKey{node, helloKey(e.tag, e.peerTag)}],
		e.life.began)
	if quiet := now.Sub(heard); quiet < timeout {
		if owed := now.Sub(max(w.acked[heardKey{node, e.tag}].at, e.born)); owed < timeout {
			return fmt.Sprintf("a packet of it arrived %v ago, an ACK of something new %v ago, less than %v",
				quiet, owed, timeout)
		}
		return "" // it owes an ACK, whatever else it says
	}
	if e.life.host.restless || e.life.host.limps() {
		return ""
	}
	if w.feigned(node) || w.feigned(e.peerHost()) {
		return ""
	}
	since := heard
	if m := w.ledger.oldestOpen(e); m != nil {
		since = max(since, m.at)
	} else {
		return "" // whoever waited for the packets in flight is not known
	}
	w.res.DeadJudged++
	slack := deadSlack + timeout/4 + timeout/2 // eight copies of the oldest, if anything is heard
	for _, o := range e.life.ends {
		if o != e && (o.open > 0 || errors.Is(o.err, btl.ErrPeerDead)) {
			slack += timeout // its packets may have held the buffers that this one's first needed
			break
		}
	}
	if late := now.Sub(since) - timeout; late > slack {
		return fmt.Sprintf("%v later than the time-out of %v", late, timeout)
	}
	return ""
}

// judgeNarrow judges ErrNarrow. No path of a run is too narrow for the least size. But a module
// sees no more than that its larger packets were lost for PeerTimeout and smaller ones were not,
// and loss, or a replayed Pong on a path that is cut, can look so. So it may come where
// ErrPeerDead may, but not on a reliable network, which loses no larger packet before a smaller
// one, nor where nothing came for PeerTimeout: then the peer is dead, and that is what is to be
// said.
func (e *end) judgeNarrow() string {
	w := e.w
	if w.plan.Net.Reliable && !e.life.host.limps() {
		return "a reliable network carries what its devices take"
	}
	node := e.life.host.index
	heard := max(w.heard[heardKey{node, e.tag}], w.heard[heardKey{node, helloKey(e.tag, e.peerTag)}])
	timeout := e.life.cfg.PeerTimeout + e.granted()
	if quiet := w.net.Now().Sub(heard); quiet >= timeout && !e.life.host.restless {
		return fmt.Sprintf("nothing of it arrived for %v: it is dead", quiet)
	}
	return e.judgeDead()
}

// feigned says whether an attacker of a node may keep a death from being noticed.
func (w *world) feigned(node int) bool {
	for i, a := range w.attackers {
		if to := w.plan.Attackers[i].Target; a.Mode().FeignsLife() && (to < 0 || to == node) {
			return true
		}
	}
	return false
}

// deadSlack is a tick of the timers and some passes.
const deadSlack = 20 * time.Millisecond

// limps says whether faults may hold up a node's own packets.
func (h *host) limps() bool {
	f := h.plan.Faults
	return f.PostAgain > 0 || f.LateSends > 0 || f.SendError > 0 || h.plan.Pace > 0 ||
		h.plan.Slices.Away > 0 || h.w.trouble(h.index, h.index)
}
