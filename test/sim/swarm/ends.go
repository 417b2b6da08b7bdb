package swarm

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/internal/mono"
	"gobtl/test/sim/attacker"
)

// end is one module's end of a connection.
type end struct {
	w    *world
	life *life
	ep   *btl.Endpoint
	name string
	tag  uint64
	born mono.Time // when the module made it, or told of it

	// The fields below hold the peer's tag for this connection and the peer's incarnation, once
	// they are known.
	peerTag uint64
	peer    *life
	known   bool

	meant     *life // the module that Connect has named, or nil
	ours      bool  // made by Connect here, or told by an event
	connected bool
	over      bool
	event     btl.Event
	err       error

	closing, aborted bool      // the application has asked for it
	cutOff           bool      // ... to abort, or to close the module, in a handler of this end
	handling         bool      // a handler of this end is running
	closedAt         mono.Time // when it asked first
	lastWord         bool      // has sent its message of phase 2
	lastWord2        bool      // has sent another one since its peer was gone

	msgs     []int // accepted sends, in order
	flushed  int   // of these, known to have ended
	open     int   // of these, not ended
	flushes  int   // to be called yet
	fences   []int // messages before each fence that nothing is known to have passed
	fencedTo int   // messages before a fence that are known to be done
	told     int   // messages before it, of which a flush has said that some were refused
	small    [smallBytes][handledTags + 2]struct{ accepted, delivered int }
	got      uint64
}

func (e *end) String() string { return e.name }

// endOf returns the judge's record of an endpoint.
func (l *life) endOf(ep *btl.Endpoint) *end {
	if e, ok := ep.Context.(*end); ok {
		if e.ep != ep || e.life != l {
			l.w.fail("endpoint with the Context of another one")
		}
		return e
	}
	e := &end{w: l.w, life: l, ep: ep, born: l.w.net.Now()}
	e.name = fmt.Sprintf("%s%d/%d", l.host.node.Name(), l.number, len(l.ends))
	ep.Context = e
	l.ends = append(l.ends, e)
	l.w.res.Ends++
	return e
}

// The method shown reports whether the application knows the endpoint, so that its end must be
// reported.
func (e *end) shown() bool { return e.ours || e.connected }

// The method learn reads the identity of the peer as soon as it is known, and the endpoint's own
// tag, which may change until then.
func (e *end) learn() {
	if e.known || !e.ep.Connected() && !e.connected {
		return
	}
	e.tag = tagOf(e.ep)
	if o := e.w.byTag[e.tag]; o != nil {
		e.w.fail("%s and %s have the same tag", e, o)
	}
	e.w.byTag[e.tag] = e
	e.peerTag = peerTagOf(e.ep)
	e.peer = e.w.byInc[peerIncarnationOf(e.ep)]
	e.known = true
}

// peerHost is the index of the peer's node, or -1 if it is unknown or has no module.
func (e *end) peerHost() int {
	if e.learn(); e.peer != nil {
		return e.peer.host.index
	}
	if l := e.w.byInc[peerIncarnationOf(e.ep)]; l != nil {
		return l.host.index // whom it is trying to reach
	}
	return -1
}

// tainted reports whether this connection is tainted.
func (e *end) tainted() bool { return e.w.tainted(e.life.host.index, e.peerHost()) }

// otherEnd returns the record of the peer's endpoint, or nil if the peer's application does not
// know the endpoint.
func (e *end) otherEnd() *end {
	if e.learn(); !e.known {
		return nil
	}
	o := e.w.byTag[e.peerTag]
	if o == nil && e.peer != nil { // the peer's is connected, and its event still to come
		for _, p := range e.peer.ends {
			p.learn()
		}
		o = e.w.byTag[e.peerTag]
	}
	if o != nil && o.life != e.peer {
		return nil
	}
	return o
}

// waitsFor reports whether a message of the peer was sent at least d ago, and has not arrived.
func (e *end) waitsFor(d time.Duration) bool {
	o := e.otherEnd()
	if o == nil {
		return false
	}
	m := e.w.ledger.missing(o)
	return m != nil && e.w.net.Now().Sub(m.at) >= d
}

// deserted reports whether the peer's endpoint is gone.
func (e *end) deserted() bool {
	o := e.otherEnd()
	return o != nil && o.over || e.peer != nil && e.peer.closed
}

// peerName returns the peer's name for a report.
func (e *end) peerName() string {
	if o := e.otherEnd(); o != nil {
		return o.name
	}
	if i := e.peerHost(); i >= 0 {
		return nodeName(i) + "?"
	}
	return "?"
}

func (e *end) close() {
	if e.over || e.closing {
		return
	}
	e.closing, e.closedAt = true, e.w.net.Now()
	e.w.note(e.life.host, "%s Close", e)
	e.ep.Close(e.w.net.Now())
}

func (e *end) abort() {
	if e.over {
		return
	}
	e.aborted = true
	e.cutOff = e.cutOff || e.handling
	e.w.note(e.life.host, "%s Abort", e)
	e.ep.Abort()
}

// onEndpoint handles the event that a module reports for an endpoint.
func (l *life) onEndpoint(ep *btl.Endpoint, ev btl.Event, err error) {
	w := l.w
	e := l.endOf(ep)
	w.note(l.host, "%s event %d %v, peer %s", e, ev, err, e.peerName())
	for range w.lieTwice(lieEventTwice) {
		e.onEvent(ev, err)
	}
	if ev == btl.EventConnected {
		w.res.Connected++
	}
	l.react(e, ev)
}

func (e *end) onEvent(ev btl.Event, err error) {
	w := e.w
	if e.over {
		w.fail("%s got event %d after its last one (%d, %v)", e, ev, e.event, e.err)
		return
	}
	if ev == btl.EventConnected {
		if e.connected {
			w.fail("%s connected twice", e)
		}
		e.connected = true
		e.learn()
		if e.ours && e.peer != nil && !e.troubled(e.peer) {
			w.res.SureConnects++
		}
		if e.peer == nil && !w.anyTaint(e.life.host.index) {
			w.fail("%s connected to an incarnation that never was", e)
		}
		return
	}
	e.over, e.event, e.err = true, ev, err
	e.learn()
	if !e.tainted() {
		if e.err = err; err == nil {
			e.err = btl.ErrClosed
		}
		e.judgeEvent(ev, w.lieEvent(err))
	}
	if e.ep.Err() == nil {
		w.fail("%s ended, but its Err is nil", e)
	}
}

// judgeEvent checks the reason that an endpoint reports for its end.
func (e *end) judgeEvent(ev btl.Event, err error) {
	w := e.w
	bad := func(why string) { w.fail("%s ended with event %d, %v: %s", e, ev, err, why) }
	if ev == btl.EventClosed {
		switch {
		case err == nil:
			if !e.closing && !e.aborted && !e.life.closing {
				bad("nobody closed it")
			} else if m := w.ledger.missing(e); m != nil && e.hurried() {
				bad(fmt.Sprintf("%s was accepted before, and not delivered", m))
			}
		case errors.Is(err, btl.ErrPeerClosed):
			e.judgeBye(bad)
		default:
			bad("no reason to be closed")
		}
		return
	}
	if why := e.unjustified(err); why != "" {
		bad(why)
	}
}

// judgeBye checks, after a peer's goodbye, that everything that the peer had sent was delivered.
func (e *end) judgeBye(bad func(string)) {
	o := e.otherEnd()
	if o == nil || !o.closing && !o.life.closing {
		bad("the peer has not closed it")
		return
	}
	if m := e.w.ledger.missing(o); m != nil {
		bad(fmt.Sprintf("%s of the peer was accepted before it closed, and not delivered", m))
	}
	for size := range o.small {
		for tag, c := range o.small[size] {
			if tag < handledTags && c.delivered < c.accepted {
				bad(fmt.Sprintf("%d messages of %d bytes were accepted, %d delivered", c.accepted, size,
					c.delivered))
			}
		}
	}
}

// unjustified returns why an error of an endpoint or a send is wrong, or "" if the error can be
// right.
func (e *end) unjustified(err error) string {
	w := e.w
	target := w.byInc[peerIncarnationOf(e.ep)]
	switch {
	case errors.Is(err, btl.ErrClosed):
		switch {
		case !e.closing && !e.aborted && !e.life.closing:
			return "nobody closed it here"
		case e.hurried():
			return "closed in order, and its time is not over"
		}
	case errors.Is(err, btl.ErrNarrow):
		return e.judgeNarrow()
	case errors.Is(err, btl.ErrPeerDead):
		return e.judgeDead()
	case errors.Is(err, btl.ErrStalled):
		if quiet, timeout := e.quiet(); quiet < timeout && !e.deserted() && !e.waitsFor(timeout) {
			return "the peer is there, and may go on"
		}
	case errors.Is(err, btl.ErrPeerRestarted):
		if w.plan.Net.NoSource && w.attacked(attacker.Replayer) {
			break // another node refuses the question of this end, and nobody knows which one
		}
		if target == nil || target.host.lives[len(target.host.lives)-1] == target {
			return "the peer has not been restarted"
		}
	case errors.Is(err, btl.ErrStale):
		if w.attacked(attacker.Replayer) {
			break // a Hello that is replayed to others is refused by them
		}
		if target == nil || e.connected || target.host.lives[len(target.host.lives)-1] == target {
			return "the incarnation is the right one"
		}
	case errors.Is(err, btl.ErrPeerClosed):
		if o := e.otherEnd(); o != nil {
			if !o.over && !o.closing && !o.aborted && !o.life.closing && !o.life.closed {
				return "the peer has not closed it"
			}
		} else if target == nil || !target.endedAny(e.life.host.index) {
			return "the peer has closed nothing"
		}
	case errors.Is(err, btl.ErrUnreachable):
		switch {
		case e.connected:
			return "it was connected"
		case target != nil && !e.wasMoved() && !e.troubled(target):
			return "nothing kept the peer from answering"
		}
	case errors.Is(err, btl.ErrRefused):
		// A delayed refusal of a connection may arrive when the peer has room again.
		switch {
		case e.connected:
			return "it was connected"
		case e.turnedAway(target):
		case errors.As(err, new(*btl.RefusedError)):
			return "no owner has refused it"
		case !w.crowded(target) && !w.besieged(target):
			return fmt.Sprintf("the peer has room: %d endpoints of %d", endpointsOf(target.mod),
				target.cfg.PeersMax)
		}
	case errors.Is(err, btl.ErrBadName):
		if e.connected || !e.wasMoved() {
			return "it was not moved"
		}
	default:
		return "an error that cannot be"
	}
	return ""
}

// hurried reports whether an endpoint that closes in order may not fail yet, because CloseTimeout
// has not passed, and the peer lives and does not close.
func (e *end) hurried() bool {
	if !e.closing || e.aborted || e.life.closing || !e.known ||
		e.w.net.Now().Sub(e.closedAt) >= e.life.cfg.CloseTimeout {
		return false
	}
	o := e.otherEnd()
	return o != nil && !o.over && !o.closing && !o.aborted && !o.life.closing && !o.life.closed
}

// endedAny reports whether a module has ended a connection to a node, or itself, or has seen the
// connection end.
func (l *life) endedAny(host int) bool {
	if l.closing || l.closed {
		return true
	}
	for _, e := range l.ends {
		if (e.over || e.closing || e.aborted) && (e.peerHost() == host || !e.known) {
			return true
		}
	}
	return false
}

// attacked reports whether an attacker of the given mode takes part.
func (w *world) attacked(mode attacker.Mode) bool {
	for _, a := range w.attackers {
		if a.Mode() == mode {
			return true
		}
	}
	return false
}

// peersEnough is the peer limit of modules that are not meant to reach it.
const (
	peersEnough    = 64
	halfOpenEnough = 48
)

// The method crowded reports whether a module has, or recently had, no room for another endpoint.
func (w *world) crowded(l *life) bool {
	for _, a := range w.attackers {
		if a.Mode().StopsConnecting() {
			return true
		}
	}
	if l == nil || l.closed || l.cfg.PeersMax < peersEnough || endpointsOf(l.mod) >= peersEnough/4 {
		return true
	}
	// A refusal for lack of room may arrive late, and is remembered.
	return l.fullAt != 0 && w.net.Now().Sub(l.fullAt) < 3*l.cfg.HandshakeTimeout
}

// troubled reports whether a fault may prevent a handshake with another module.
func (e *end) troubled(target *life) bool {
	w := e.w
	a, b := e.life.host, target.host
	if a.restless || b.restless || b.life != target || target.closing || e.life.closing {
		return true
	}
	for _, h := range []*host{a, b} {
		f := h.plan.Faults
		if f.PostAgain > 0 || f.SendError > 0 || f.RecvError > 0 || h.plan.Pace > 0 ||
			f.QueueDatagrams > 0 || f.LateSends > 0 || h.plan.Slices.Away > 0 {
			return true
		}
	}
	for _, at := range w.attackers {
		if at.Mode().StopsConnecting() {
			return true
		}
	}
	for _, p := range [...][2]int{{a.index, b.index}, {b.index, a.index}} {
		q := &w.plan.Paths[p[0]][p[1]]
		if q.Loss > 0 || q.BurstStart > 0 || q.QueueBytes > 0 || q.Truncate > 0 || q.BitFlip > 0 ||
			w.trouble(p[0], p[1]) {
			return true
		}
	}
	// If bursts fill a queue, Hellos are lost like other packets.
	return w.net.Counts()[kindQueueFull] > 0 || w.crowded(target) || w.crowded(e.life) ||
		target.limits.HalfOpenMax < halfOpenEnough || w.besieged(target)
}

// besieged reports whether so many peers have recently tried to connect that no half-open endpoint
// may be free.
func (w *world) besieged(target *life) bool {
	n, now := 0, w.net.Now()
	for _, h := range w.hosts {
		for _, l := range h.lives {
			for _, e := range l.ends {
				if e.ours && w.byInc[peerIncarnationOf(e.ep)] == target &&
					now.Sub(e.born) < 3*target.cfg.HandshakeTimeout {
					n++
				}
			}
		}
	}
	return n > target.limits.HalfOpenMax
}

// trouble reports whether an incident may interrupt the path from node i to node j.
func (w *world) trouble(i, j int) bool {
	for k := range w.plan.Incidents {
		in := &w.plan.Incidents[k]
		switch in.Kind {
		case Cut, CutBoth, Turn:
			if in.Node == i && in.Peer == j || in.Node == j && in.Peer == i {
				return true
			}
		case Isolate, Pause, Pace, Crash, Reopen, Swallow:
			if in.Node == i || in.Node == j {
				return true
			}
		default:
		}
	}
	return false
}
