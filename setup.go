package gobtl

import (
	"context"

	"gobtl/btl"
)

// A gate delays the answers to the connection requests of a link until the link has the Node's
// handlers and Config.Setup has returned. Only the goroutine that drives the link may use the gate.
type gate struct {
	open  bool
	asked []btl.Request
}

// gateAsksMax is the maximum number of connection requests that a gate stores. If gateAsksMax
// requests are stored, the gate answers each new request with btl.Defer, so that the peer repeats
// it.
const gateAsksMax = 1 << 12

// The method "admit" accepts a connection request if the gate is open, and otherwise stores the
// request, or defers it if gateAsksMax requests are already stored.
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

// openGate accepts the stored connection requests of the link, and all later requests.
func (l *Link) openGate() error {
	return l.run.Do(context.Background(), func(m *btl.Module) error {
		l.gate.open = true
		for i := range l.gate.asked {
			_ = l.gate.asked[i].Decide(m.Now(), btl.Accept()) // The peer repeats a request that has expired.
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
