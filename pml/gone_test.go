package pml

import (
	"errors"
	"testing"

	"gobtl/btl"
)

// A peer that leaves messages and goes, again and again, fills no more than GoneBytes, and takes
// nothing of what another one has left, which is still received.
func TestGoneBytes(t *testing.T) {
	t.Parallel()
	const most, size, rounds = 1 << 20, 60 << 10, 40
	step, layers := memLayers(t, 3, Config{GoneBytes: most})
	good, bad, l := layers[0], layers[1], layers[2]
	leave := func(from *Layer, count, size int, tag uint64) {
		to := connected(t, step, from, l)
		for range count {
			var send Request
			if err := from.Send(step(), &send, to, tag, make([]byte, size), Standard); err != nil {
				t.Fatal(err)
			}
			for range 1000 {
				step()
			}
			if !send.Done() || send.Err() != nil {
				t.Fatal(send.Done(), send.Err())
			}
		}
		to.ep.Abort()
		for range 1000 {
			step()
		}
	}
	leave(good, 3, size, 1)
	for range rounds {
		leave(bad, 5, size, 2)
		if s, n := l.Stats(), l.unexpected.gone.Bytes(); s.UnexpectedBytes > most || n > most {
			t.Fatalf("%d bytes of messages, %d counted, at most %d", s.UnexpectedBytes, n, most)
		}
	}
	if s := l.Stats(); s.Forgotten == 0 || s.UnexpectedBytes < most/2 {
		t.Errorf("%d messages forgotten, %d bytes kept", s.Forgotten, s.UnexpectedBytes)
	}
	for range 3 {
		var recv Request
		if err := l.Recv(step(), &recv, nil, 1, exactly, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if !recv.Done() || recv.Err() != nil || recv.Len() != size {
			t.Fatalf("the other peer's message: done %v, %v", recv.Done(), recv.Err())
		}
	}
	for l.Stats().UnexpectedMessages > 0 {
		var recv Request
		m := l.MProbe(nil, 2, exactly)
		if err := l.RecvMessage(step(), &recv, m, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if l.unexpected.gone.Bytes() != 0 {
		t.Errorf("%d bytes are counted of nothing", l.unexpected.gone.Bytes())
	}
	if err := errors.Join(good.CheckIdle(), bad.CheckIdle(), l.CheckIdle()); err != nil {
		t.Error(err)
	}
}

// A peer that comes and goes with empty messages counts as what it takes.
func TestGoneEmpty(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	step, layers := memLayers(t, 2, Config{GoneBytes: most})
	for range 40 {
		to := connected(t, step, layers[0], layers[1])
		var send Request
		if err := layers[0].Send(step(), &send, to, 1, nil, Standard); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			step()
		}
		to.ep.Abort()
		for range 200 {
			step()
		}
	}
	n := layers[1].Stats().UnexpectedMessages
	if want := most / (goneBytes + messageBytes); n != want {
		t.Errorf("messages of %d peers that have gone are kept, want %d", n, want)
	}
}

// What is longer than any message of a layer is refused before there is memory for it.
func TestTooLong(t *testing.T) {
	t.Parallel()
	step, a, b, to := memPair(t)
	f, err := to.ep.Alloc(a.cfg.Tag, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var told error
	over := false
	f.Signal, f.OnDone = true, func(_ *btl.Fragment, err error) { told, over = err, true }
	if _, err := to.ep.Send(step(), f); err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		step()
	}
	if !over || !errors.Is(told, btl.ErrUnwanted) {
		t.Errorf("told: %v, %v; want %v", over, told, btl.ErrUnwanted)
	}
	if err := errors.Join(to.Err(), a.CheckIdle(), b.CheckIdle()); err != nil {
		t.Error(err)
	}
}
