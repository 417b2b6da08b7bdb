package gobtl

import (
	"context"

	"gobtl/btl"
)

// gate keeps the connection requests of a link until the Node is ready: until the link has the
// Node's handlers, and Config.Setup has returned. The goroutine that drives the link owns the gate.
type gate struct {
	open  bool
	asked []btl.Request
}

// gateAsksMax is the maximum number of requests that a gate keeps. Peers beyond it ask again.
const gateAsksMax = 1 << 12

// admit decides on a connection request of a peer.
func (g *gate) admit(r btl.Request) btl.Verdict {
	switch {
	case g.open:
		return btl.Accept()
	case len(g.asked) == gateAsksMax:
		return btl.Defer(0)
	}
	if r.MayKeep() {
		g.asked = append(g.asked, r)
	}
	return btl.Keep(btl.KeepMax)
}

// openGate lets peers connect to the link.
func (l *Link) openGate() error {
	return l.run.Do(context.Background(), func(m *btl.Module) error {
		l.gate.open = true
		for i := range l.gate.asked {
			_ = l.gate.asked[i].Decide(m.Now(), btl.Accept()) // A request that is gone is asked again.
		}
		l.gate.asked = nil
		return nil
	})
}

// setUp calls Config.Setup, and then lets peers connect to all links.
func (n *Node) setUp() error {
	if n.cfg.Setup != nil {
		if err := n.cfg.Setup(n); err != nil {
			return err
		}
	}
	n.mu.Lock()
	n.ready = true
	links := append([]*Link(nil), n.links...)
	n.mu.Unlock()
	for _, l := range links {
		if err := l.openGate(); err != nil {
			return err
		}
	}
	return nil
}
