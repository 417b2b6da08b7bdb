package call

import (
	"context"
	"testing"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

const tagPlain, tagCall = 3, 5

func openMem(t *testing.T, net *mem.Network, plain btl.Handler) *btl.Module {
	t.Helper()
	infos, err := net.Provider().GetInfo(fabric.Hints{})
	if err != nil {
		t.Fatal(err)
	}
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
	if err := m.Handle(tagPlain, plain); err != nil {
		t.Fatal(err)
	}
	return m
}

func closed(t *testing.T, r *runner.Runner) {
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// A closed Node that has no free send buffer, and whose answers to other peers fill their share,
// keeps its answers to a peer that has just connected. It does not end the connection to the peer.
func TestLeftBehindInFirstHandler(t *testing.T) {
	const others, answers = 9, 50 // others reach the bound of package runner
	net := mem.New(mem.Config{})
	var n *Node
	var eps []*btl.Endpoint
	told := make(chan error, 1)
	m := openMem(t, net, func(peer *btl.Endpoint, _ btl.Tag, _ []byte) {
		for _, ep := range eps {
			for n.r.SendBuffered(t.Context(), ep, tagPlain, nil) == nil {
			}
		}
		var held []*btl.Fragment
		f, err := peer.Alloc(tagPlain, 0)
		for ; err == nil; f, err = peer.Alloc(tagPlain, 0) {
			held = append(held, f)
		}
		for i := range uint64(answers) {
			n.reply(peer, head{id: i, kind: kindAnswer, code: uint16(statusClosing)}, nil)
		}
		told <- peer.Err()
		for _, f := range held {
			if err := peer.Free(f); err != nil {
				t.Error(err)
			}
		}
	})
	n, err := New(m, Config{Tag: tagCall})
	if err != nil {
		t.Fatal(err)
	}
	r := n.Start(runner.Config{}, nil)
	closed(t, r)
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ignore := func(*btl.Endpoint, btl.Tag, []byte) {}
	for range others {
		other := openMem(t, net, ignore)
		name := other.Name()
		closed(t, runner.New(other, runner.Config{}, nil))
		ep, err := r.Connect(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		eps = append(eps, ep)
	}
	name := m.Name()
	newcomer := openMem(t, net, ignore)
	from := runner.New(newcomer, runner.Config{}, nil)
	closed(t, from)
	err = from.Do(t.Context(), func(m *btl.Module) error {
		ep, err := m.Connect(m.Now(), name)
		if err != nil {
			return err
		}
		f, err := ep.Alloc(tagPlain, 0)
		if err != nil {
			return err
		}
		_, err = ep.Send(m.Now(), f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Errorf("the peer that has just connected: %v", err)
	}
}
