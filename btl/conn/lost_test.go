package conn

import (
	"context"
	"testing"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// The Conns of an endpoint that ends are found without a walk through all Conns, which are hidden
// in this test.
func TestLostTouchesNoOther(t *testing.T) {
	n, r, ep, beside := nodeOfTwo(t)
	err := r.Do(t.Context(), func(*btl.Module) error {
		var own []*Conn
		for id := range uint32(10) {
			own = append(own, n.add(name{ep, true, id}, ""))
			n.add(name{beside, true, id}, "")
		}
		n.remove(own[3]) // the last one takes its place
		all := n.conns
		n.conns = nil
		n.lost(ep, btl.ErrClosed)
		n.conns = all
		for id, c := range own {
			if (c.err != nil) != (id != 3) {
				t.Errorf("Conn %d: %v", id, c.err)
			}
		}
		if p := n.peers[beside]; p == nil || len(p.conns) != 10 || n.peers[ep] != nil {
			t.Errorf("peers %v", n.peers)
		}
		for _, c := range n.peers[beside].conns {
			if c.err != nil {
				t.Errorf("a Conn of another endpoint: %v", c.err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestShedLooksOnce: the endpoints that hold most receive buffers are ended, without a further walk
// through all Conns.
func TestShedLooksOnce(t *testing.T) {
	n, r, ep, beside := nodeOfTwo(t)
	err := r.Do(t.Context(), func(*btl.Module) error {
		n.cfg.TotalBytes = 80_000
		for id := range uint32(10) {
			n.add(name{ep, true, id}, "").count(4000)
			n.add(name{beside, true, id}, "").count(7000)
		}
		if n.endHolders(nil); ep.Err() != nil || beside.Err() != nil {
			t.Error("it looks for endpoints itself")
		}
		n.endHolders(n.holders())
		if ep.Err() != nil || beside.Err() == nil {
			t.Errorf("%v, %v, %d bytes held", ep.Err(), beside.Err(), n.held)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// nodeOfTwo makes a Node with endpoints to two others.
func nodeOfTwo(t *testing.T) (n *Node, r *runner.Runner, ep, beside *btl.Endpoint) {
	t.Helper()
	net := mem.New(mem.Config{})
	infos, err := net.Provider().GetInfo(fabric.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*btl.Module, *Node, *runner.Runner) {
		sizes, err := btl.Config{}.DomainConfig(infos[0])
		if err != nil {
			t.Fatal(err)
		}
		domain, err := net.Open(sizes)
		if err != nil {
			t.Fatal(err)
		}
		m, err := btl.Open(domain, btl.Config{})
		if err != nil {
			t.Fatal(err)
		}
		n, err := New(m, Config{Tag: 1})
		if err != nil {
			t.Fatal(err)
		}
		r := n.Start(runner.Config{}, nil)
		t.Cleanup(func() {
			if err := r.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return m, n, r
	}
	m, _, _ := open()
	other, _, _ := open()
	_, n, r = open()
	ep, err = r.Connect(t.Context(), m.Name())
	if err != nil {
		t.Fatal(err)
	}
	beside, err = r.Connect(t.Context(), other.Name())
	if err != nil {
		t.Fatal(err)
	}
	return n, r, ep, beside
}
