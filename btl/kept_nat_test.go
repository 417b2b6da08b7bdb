package btl_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// keptLab is a simulated network on which a client connects to a server that keeps requests.
type keptLab struct {
	t  *testing.T
	nw *sim.Network
}

func newKeptLab(t *testing.T) *keptLab {
	t.Helper()
	nw, err := sim.New(sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &keptLab{t, nw}
}

func (w *keptLab) open(node *sim.Node) *btl.Module {
	w.t.Helper()
	dom, err := node.Open(fabric.DomainConfig{Buffers: 2048})
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := btl.Open(dom, btl.Config{
		SendBuffers: 512, RecvDepth: 256,
		Random: rand.New(rand.NewPCG(uint64(node.Index()), uint64(w.nw.Now()))).Uint64,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	node.Run(m)
	return m
}

// until runs the network until the given time, or until the function over returns true.
func (w *keptLab) until(at time.Duration, over func() bool) {
	for w.nw.Now() < mono.Time(at) && !over() {
		w.nw.Step()
	}
}

// A NAT forgets a pair of ports after 30 s without packets of the client. A server that decides
// after 40 s still reaches the client, and decides once.
func TestKeptBehindNAT(t *testing.T) {
	w := newKeptLab(t)
	server, client := w.nw.Node("server"), w.nw.Node("client")
	heard := mono.Time(0)
	w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		if d.From.Node == client.Index() {
			heard = w.nw.Now()
		}
		return sim.Verdict{
			Drop: d.To.Node == client.Index() && w.nw.Now().Sub(heard) > 30*time.Second,
		}
	})
	m, c := w.open(server), w.open(client)
	asked := 0
	m.Admit(func(r btl.Request) btl.Verdict {
		asked++
		w.nw.After(40*time.Second, func() {
			if err := r.Decide(w.nw.Now(), btl.Accept()); err != nil {
				t.Error(err)
			}
			server.Kick()
		})
		return btl.Keep(btl.KeepMax)
	})
	ep, err := c.Connect(w.nw.Now(), m.Name())
	if err != nil {
		t.Fatal(err)
	}
	client.Kick()
	w.until(3*time.Minute, func() bool { return ep.Connected() || ep.Err() != nil })
	if at := time.Duration(w.nw.Now()); !ep.Connected() || asked != 1 || at > 41*time.Second {
		t.Errorf("after %v: connected %v, %v; the owner was asked %d times", at, ep.Connected(), ep.Err(),
			asked)
	}
}

// A server is restarted a second after it has kept a request. The client notices this when it asks
// again, which is long before the time of the request is over.
func TestKeptThenRestarted(t *testing.T) {
	w := newKeptLab(t)
	server, client := w.nw.Node("server"), w.nw.Node("client")
	m, c := w.open(server), w.open(client)
	kept := false
	m.Admit(func(btl.Request) btl.Verdict {
		kept = true
		return btl.Keep(btl.KeepMax)
	})
	ep, err := c.Connect(w.nw.Now(), m.Name())
	if err != nil {
		t.Fatal(err)
	}
	client.Kick()
	w.until(time.Second, func() bool { return kept })
	if !kept {
		t.Fatal("the server was not asked")
	}
	w.until(time.Second, func() bool { return false })
	server.Crash()
	w.open(server)
	w.until(2*time.Minute, func() bool { return ep.Connected() || ep.Err() != nil })
	if at := time.Duration(w.nw.Now()); at > 20*time.Second {
		t.Errorf("connected %v, %v, only %v after the restart", ep.Connected(), ep.Err(), at-time.Second)
	}
}
