package swarm

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
)

// awayMax is the longest time that a node announces by Away.
const awayMax = 3 * time.Second

// drawAways draws how long each node's process may be without polls, and how long a silence of this
// kind the node grants to others.
func (p *Plan) drawAways() {
	d := newDraw(p.Seed, 0xA3A1)
	for i := range p.Nodes {
		node := &p.Nodes[i]
		if d.chance(0.3) {
			node.Config.Away = d.dur(time.Millisecond, awayMax)
		}
		switch d.IntN(4) {
		case 0:
			node.Limits.AwayMax = -1
		case 1:
			node.Limits.AwayMax = d.dur(time.Millisecond, awayMax)
		}
	}
}

// granted is the time beyond PeerTimeout for which the peer may be silent, because it has announced
// this time and the node has granted it.
func (e *end) granted() time.Duration {
	e.learn()
	peer := e.peer
	if !e.known {
		peer = e.w.byInc[peerIncarnationOf(e.ep)] // whom it is trying to reach
	}
	most := e.life.limits.AwayMax
	switch {
	case peer == nil || most < 0:
		return 0
	case most == 0:
		most = awayMax // much more is the default
	}
	return min(peer.cfg.Away.Truncate(time.Millisecond), most)
}

// The method quiet returns the time since a packet of the connection has arrived, and how long the
// peer may be silent.
func (e *end) quiet() (since, timeout time.Duration) {
	w, node := e.w, e.life.host.index
	heard := max(w.heard[heardKey{node, e.tag}], w.heard[heardKey{node, helloKey(e.tag, e.peerTag)}],
		e.life.began)
	return w.net.Now().Sub(heard), e.life.cfg.PeerTimeout + e.granted()
}

// judgeDead judges ErrPeerDead. ErrPeerDead is right only if no packet, or no new acknowledgement,
// of the connection has arrived for PeerTimeout plus the granted time. ErrPeerDead must come at
// most slack after the time-out of the oldest unacknowledged send.
func (e *end) judgeDead() string {
	w := e.w
	now, node := w.net.Now(), e.life.host.index
	quiet, timeout := e.quiet()
	if quiet < timeout {
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
	since := now.Add(-quiet)
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

// judgeNarrow judges ErrNarrow. No path of a run is too narrow for the smallest packets. A module
// may suspect a narrow path when loss, or a replayed Pong on an interrupted path, hits only its
// larger packets for PeerTimeout. ErrNarrow is right where ErrPeerDead would be right, except on a
// reliable network, and except if no packet at all has arrived for PeerTimeout.
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

// feigned reports whether an attacker may hide a node's death.
func (w *world) feigned(node int) bool {
	for i, a := range w.attackers {
		if to := w.plan.Attackers[i].Target; a.Mode().FeignsLife() && (to < 0 || to == node) {
			return true
		}
	}
	return false
}

// deadSlack is the time of one timer tick and some polls.
const deadSlack = 20 * time.Millisecond

// limps reports whether faults may delay the packets that a node sends.
func (h *host) limps() bool {
	f := h.plan.Faults
	return f.PostAgain > 0 || f.LateSends > 0 || f.SendError > 0 || h.plan.Pace > 0 ||
		h.plan.Slices.Away > 0 || h.w.trouble(h.index, h.index)
}
