package swarm

import (
	"time"

	"gobtl/fabric/sim"
)

// happen begins an incident, whose changes are undone later.
func (w *world) happen(in *Incident) {
	if w.phase != phaseFaults {
		return
	}
	h := w.hosts[in.Node]
	w.res.Incidents[in.Kind]++
	w.note(h, "%s of %v, with %s", in.Kind, in.For, nodeName(in.Peer))
	switch in.Kind {
	case Pause:
		h.restless = true
		h.node.Pause(in.For)
	case Pace:
		h.restless = true
		h.node.SetPace(w.d.dur(20*time.Microsecond, 20*time.Millisecond))
		w.after(in.For, func() { h.node.SetPace(h.plan.Pace) })
	case Crash:
		w.crash(h, in.For)
	case Reopen:
		if l := h.life; l != nil && !l.closing {
			h.restless = true
			l.shut()
			w.reopen(h, in.For)
		}
	case Cut, CutBoth, Turn:
		w.change(in, in.Node, in.Peer)
		if in.Kind == CutBoth {
			w.change(in, in.Peer, in.Node)
		}
	case Isolate:
		for j := range w.hosts {
			w.change(in, in.Node, j)
			w.change(in, j, in.Node)
		}
	case Meet:
		w.meet(h, in)
	case Deafen:
		if l := h.life; l != nil && !l.closed && l.deafened == 0 {
			l.deafen(in.For)
		}
	case Withdraw:
		w.withdraw(h)
	case Swallow:
		f := h.plan.Faults
		f.QueueDatagrams = w.d.size(2, 32)
		h.node.SetFaults(f)
		w.after(in.For, func() { h.node.SetFaults(h.plan.Faults) })
	default:
	}
}

// after runs fn after the time d, if the phase of faults has not ended.
func (w *world) after(d time.Duration, fn func()) {
	w.net.After(d, func() {
		if w.phase == phaseFaults {
			fn()
		}
	})
}

func (w *world) crash(h *host, down time.Duration) {
	if h.life == nil || h.life.closing {
		return
	}
	h.life.crash()
	if down >= 0 {
		w.reopen(h, down)
	}
}

// reopen opens a node again after some time, even after the phase of faults.
func (w *world) reopen(h *host, down time.Duration) {
	h.toOpen++
	w.net.After(down+1, func() {
		h.toOpen--
		if h.life != nil || w.phase > phaseDrain {
			return
		}
		if w.d.chance(0.3) { // the next life is another program
			next := w.plan.drawNode(w.d, *w.opts)
			w.plan.drawPackBytes(w.d, &next.Config, *w.opts)
			w.plan.later = append(w.plan.later, next.Config)
			plan := *h.plan
			plan.Config, plan.Limits = next.Config, next.Limits
			h.plan = &plan
		}
		if err := h.open(); err != nil {
			w.fail("node %s: opened again: %w", h.node.Name(), err)
		}
	})
}

// reopenLater opens a node again after one of its own callbacks has closed the module.
func (w *world) reopenLater(h *host) {
	h.restless = true
	w.reopen(h, w.d.dur(10*time.Microsecond, 100*time.Millisecond))
}

// The method change changes a path for a limited time.
func (w *world) change(in *Incident, from, to int) {
	path := w.plan.Paths[from][to]
	if in.Kind == Turn {
		path = in.path
	} else {
		path.Cut = true
	}
	a, b := w.hosts[from].node.Node, w.hosts[to].node.Node
	w.net.SetPath(a, b, path)
	w.after(in.For, func() { w.net.SetPath(a, b, w.plan.Paths[from][to]) })
}

// meet makes two nodes connect to each other at the same time.
func (w *world) meet(h *host, in *Incident) {
	other := w.hosts[in.Peer]
	if h.life == nil || other.life == nil || h.life.closing || other.life.closing {
		return
	}
	a, b := h.life.connect(in.Peer), other.life.connect(in.Node)
	if a != nil {
		a.do(wayAlloc, w.drawSize(3000))
	}
	if b != nil {
		b.do(wayPrepare, w.drawSize(3000))
	}
	h.node.Kick()
	other.node.Kick()
}

// deaf reports whether the module has no handler for tagFlicker.
func (l *life) deaf() bool { return l.deafened > 0 }

// deafen removes a handler for a limited time.
func (l *life) deafen(d time.Duration) {
	l.deafened++
	if err := l.mod.Handle(tagFlicker, nil); err != nil {
		l.w.fail("removing a handler: %w", err)
	}
	l.w.net.After(d, func() {
		if l.deafened--; l.deaf() {
			return
		}
		if err := l.mod.Handle(tagFlicker, l.receive); err != nil {
			l.w.fail("registering a handler: %w", err)
		}
	})
}

func (w *world) withdraw(h *host) {
	l := h.life
	if l == nil || l.closing {
		return
	}
	if n := len(l.regions); n > 0 {
		l.regions[w.d.IntN(n)].withdraw()
	}
	if len(l.regions) < 16 {
		l.expose()
	}
	if len(l.libraries) < 8 {
		l.closeLibrary()
	}
}

const kindQueueFull = sim.KindQueueFull
