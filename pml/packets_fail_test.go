package pml

import (
	"bytes"
	"errors"
	"testing"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// If a packet of a send is not delivered, both the send and its receive end with ErrTransfer. The
// connection goes on, although other packets of the send were in flight.
func TestPacketNotDelivered(t *testing.T) {
	t.Parallel()
	step, a, b, to := memPair(t)
	out, in := stripes(16<<20), stripes(16<<20)
	s, r := Request{Layout: out}, Request{Layout: in}
	fails := 2
	a.onPacket = func(f *btl.Fragment, err error) {
		if s.under > 1 && fails > 0 {
			fails--
			err = btl.ErrUnwanted
		}
		a.packetDone(f, err)
	}
	if err := b.Recv(step(), &r, nil, 1, exactly, nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Send(step(), &s, to, 1, nil, Standard); err != nil {
		t.Fatal(err)
	}
	for i := 0; !s.Done() || !r.Done(); i++ {
		if step(); i > 100_000 {
			t.Fatalf("send done: %v, receive done: %v", s.Done(), r.Done())
		}
	}
	if !errors.Is(s.Err(), ErrTransfer) || !errors.Is(s.Err(), btl.ErrUnwanted) ||
		!errors.Is(r.Err(), ErrTransfer) || fails > 0 {
		t.Errorf("send: %v, receive: %v, %d failures are left", s.Err(), r.Err(), fails)
	}
	if err := b.Recv(step(), &r, nil, 2, exactly, nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Send(step(), &s, to, 2, nil, Standard); err != nil {
		t.Fatal(err)
	}
	finish(t, step, &s, &r)
	if err := errors.Join(to.Err(), a.CheckIdle(), b.CheckIdle()); err != nil {
		t.Error(err)
	}
}

// Packets obey FragmentBytesMax of the module, even if a datagram could carry more.
func TestPacketsOfSmallFragments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mtuBytes, fragmentBytesMax int }{{0, 1 << 10}, {60_000, 16 << 10}} {
		net := mem.New(mem.Config{MTUBytes: c.mtuBytes})
		infos, err := net.Provider().GetInfo(fabric.Hints{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := btl.Config{SendBuffers: 256, FragmentBytesMax: uint32(c.fragmentBytesMax)}
		step, layers := openModules(t, 2, Config{}, cfg, infos[0], net.Open)
		a, b := layers[0], layers[1]
		to := connected(t, step, a, b)
		const size = 1 << 20
		out, in := stripes(size), stripes(size)
		clear(in.mem)
		s, r := Request{Layout: out}, Request{Layout: in}
		if err := b.Recv(step(), &r, nil, 1, exactly, nil); err != nil {
			t.Fatal(err)
		}
		if err := a.Send(step(), &s, to, 1, nil, Standard); err != nil {
			t.Fatal(err)
		}
		finish(t, step, &s, &r)
		want, got := make([]byte, size), make([]byte, size)
		out.comb.Gather(want, 0)
		if in.comb.Gather(got, 0); !bytes.Equal(got, want) {
			t.Errorf("FragmentBytesMax %d: not what was sent", c.fragmentBytesMax)
		}
	}
}
