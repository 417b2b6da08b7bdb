package gobtl

import (
	"context"
	"slices"

	"gobtl/btl"
)

// A gate delays the answers to the connection requests of a link until the link has the Node's
// handlers and Config.Setup has returned. Only the goroutine that drives the link may use the gate.
//
// The module stores a bounded number of requests, and divides them between hosts. The gate stores
// the same requests. A request that the module has dropped, for example because the peer has given
// up, leaves the gate when the number of the gate's requests has doubled.
type gate struct {
	open  bool
	asked []btl.Request
	most  int // when asked has this length, the gate looks for dropped requests
}

// gateAsksMin is the minimum of gate.most.
const gateAsksMin = 64

// The method "admit" accepts a connection request if the gate is open, and otherwise stores the
// request.
func (g *gate) admit(r btl.Request) btl.Verdict {
	if g.open {
		return btl.Accept()
	}
	if r.MayKeep() {
		g.shrink()
		g.asked = append(g.asked, r)
	}
	return btl.Keep(btl.KeepMax)
}

// The method "shrink" removes the requests that the module has dropped, if the gate stores many
// requests.
func (g *gate) shrink() {
	if len(g.asked) < g.most {
		return
	}
	g.asked = slices.DeleteFunc(g.asked, func(r btl.Request) bool { return !r.Undecided() })
	g.most = max(gateAsksMin, 2*len(g.asked))
}

// The method "lift" accepts the stored connection requests, and all later requests.
func (g *gate) lift(now btl.Time) {
	g.open = true
	for i := range g.asked {
		_ = g.asked[i].Decide(now, btl.Accept()) // The peer repeats a request that has expired.
	}
	g.asked = nil
}

// openGate accepts the stored connection requests of the link, and all later requests.
func (l *Link) openGate() error {
	return l.run.Do(context.Background(), func(m *btl.Module) error {
		l.gate.lift(m.Now())
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
