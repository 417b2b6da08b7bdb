package pml

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/udp"
)

// The end of a peer walks through no receive and no message of another peer. In this test such a
// walk would never end.
func TestLostTouchesNoOther(t *testing.T) {
	t.Parallel()
	const size = 300 << 10 // announced
	step, layers := memLayers(t, 3, Config{})
	good, bad, l := layers[0], layers[1], layers[2]
	goodTo, badTo := connected(t, step, good, l), connected(t, step, bad, l)
	from := func(p *Peer) *Peer { // the side of l
		for _, q := range []*Peer{connected(t, step, l, good), connected(t, step, l, bad)} {
			if q.ep.IsModule(p.l.m.Name()) {
				return q
			}
		}
		t.Fatal("not connected")
		return nil
	}
	fromGood, fromBad := from(goodTo), from(badTo)
	var sends [2]Request
	for i, to := range []*Peer{goodTo, badTo} {
		if err := to.l.Send(step(), &sends[i], to, 1, make([]byte, size), Standard); err != nil {
			t.Fatal(err)
		}
	}
	var probed []*Message
	for range 1000 {
		step()
		if m := l.MProbe(nil, 1, exactly); m != nil {
			probed = append(probed, m)
		}
	}
	if len(probed) != 2 {
		t.Fatalf("%d messages have come", len(probed))
	}
	var of, others [3]Request
	post := func(r *Request, from *Peer, tag, mask uint64) {
		if err := l.Recv(step(), r, from, tag, mask, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, mask := range []uint64{exactly, 0, exactly} {
		post(&others[i], fromGood, uint64(10+i), mask)
		post(&of[i], fromBad, uint64(10+i), mask)
	}
	others[0].queue.next, others[1].queue.next = &others[0], &others[1]
	for _, m := range probed {
		if m.peer == fromGood {
			m.order.next = m
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.end(fromBad, btl.ErrClosed)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the end of a peer walks through what belongs to another one")
	}
	l.done.settle()
	for i := range of {
		if !of[i].Done() || !errors.Is(of[i].Err(), ErrPeer) {
			t.Errorf("receive %d: done %v, %v", i, of[i].Done(), of[i].Err())
		}
		if others[i].Done() {
			t.Errorf("receive %d from the other peer has ended: %v", i, others[i].Err())
		}
	}
}

// All peers of a host that have gone share what a host may leave, whatever their ports are.
func TestGoneOfHost(t *testing.T) {
	t.Parallel()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil || len(infos) == 0 {
		t.Skipf("no loopback over udp: %v", err)
	}
	step, layers := openLayers(t, 3, Config{}, infos[0],
		func(dc fabric.DomainConfig) (fabric.Domain, error) { return fabric.Open(infos[0], dc) })
	l := layers[2]
	for i, from := range layers[:2] {
		to := connected(t, step, from, l)
		var send Request
		if err := from.Send(step(), &send, to, 1, make([]byte, 100), Standard); err != nil {
			t.Fatal(err)
		}
		until(t, step, func() bool { return l.Stats().UnexpectedMessages == i+1 })
		m := l.unexpected.all.last
		to.ep.Abort()
		until(t, step, func() bool { return m.peer.err != nil })
		if n := l.unexpected.gone.Of(m.peer.ep.PeerHost()); n != i+1 {
			t.Errorf("%d peers have gone, %d of this host", i+1, n)
		}
	}
}

// until makes steps until something has happened.
func until(t *testing.T, step func() btl.Time, done func() bool) {
	t.Helper()
	for n := 0; !done(); n++ {
		if n == 1_000_000 {
			t.Fatal("still not")
		}
		step()
	}
}
