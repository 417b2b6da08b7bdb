package pml

import (
	"bytes"
	"errors"
	"testing"

	"gobtl/btl"
)

// activePair is memPair, with until, which makes passes until something is so.
func activePair(t *testing.T) (
	step func() btl.Time, until func(string, func() bool), a, b *Layer, to *Peer,
) {
	t.Helper()
	step, a, b, to = memPair(t)
	until = func(what string, so func() bool) {
		t.Helper()
		for range 10_000 {
			if so() {
				return
			}
			step()
		}
		t.Fatal("not so: ", what)
	}
	return step, until, a, b, to
}

// A round trip of small active messages allocates nothing, with header and data, also when they are
// copied out of the handler by RecvMessage.
func TestActiveAllocatesNothing(t *testing.T) {
	step, _, a, b, to := activePair(t)
	var ping, pong, recv Request
	header, data, room := []byte("header"), make([]byte, 64), make([]byte, 64)
	back := 0
	b.HandleActive(0x1234, func(now btl.Time, m *Message) {
		if err := b.SendActive(now, &pong, m.Peer(), 0xffff, m.Header(), nil, Standard); err != nil {
			t.Error(err)
		}
		if err := b.RecvMessage(now, &recv, m, room); err != nil {
			t.Error(err)
		}
	})
	a.HandleActive(0xffff, func(_ btl.Time, m *Message) {
		if !bytes.Equal(m.Header(), header) || len(m.Data()) != 0 {
			t.Errorf("%q, %d bytes", m.Header(), len(m.Data()))
		}
		back++
	})
	turn := byte(0)
	once := func() {
		turn++
		data[63] = turn
		want := back + 1
		if err := a.SendActive(step(), &ping, to, 0x1234, header, data, Standard); err != nil {
			t.Fatal(err)
		}
		for i := 0; back != want; i++ {
			if step(); i > 1000 {
				t.Fatal("no answer")
			}
		}
		if !bytes.Equal(room, data) {
			t.Fatalf("%x, want %x", room, data)
		}
	}
	for range 20_000 { // until all that grows has grown
		once()
	}
	if n := testing.AllocsPerRun(500, once); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What is announced waits for its place: named in the handler, later, or never.
func TestActiveAnnounced(t *testing.T) {
	t.Parallel()
	step, until, a, b, to := activePair(t)
	var came *Message
	var s, r Request
	data, room := bytes.Repeat([]byte("0123456789"), 30_000), make([]byte, 300_000)
	inside := func(btl.Time, *Message) {}
	b.HandleActive(1, func(now btl.Time, m *Message) {
		if came = m; !m.Announced() || m.Data() != nil || m.Size() != 300_000 ||
			string(m.Header()) != "where" || m.Tag() != 1 {
			t.Errorf("%+v", m)
		}
		inside(now, m)
	})
	send := func() {
		t.Helper()
		came = nil
		clear(room)
		if err := a.SendActive(step(), &s, to, 1, []byte("where"), data, Standard); err != nil {
			t.Fatal(err)
		}
		until("it comes", func() bool { return came != nil })
	}
	receive := func(now btl.Time, m *Message) {
		if err := b.RecvMessage(now, &r, m, room); err != nil {
			t.Error(err)
		}
	}
	inside = receive
	send()
	until("received now", func() bool { return s.Done() && r.Done() })
	if s.Err() != nil || r.Err() != nil || !bytes.Equal(room, data) {
		t.Errorf("%v, %v", s.Err(), r.Err())
	}
	inside = func(btl.Time, *Message) {}
	send()
	for range 1000 {
		step()
	}
	if s.Done() || string(came.Header()) != "where" {
		t.Errorf("done %v, %q", s.Done(), came.Header())
	}
	receive(step(), came)
	until("received later", func() bool { return s.Done() && r.Done() })
	if s.Err() != nil || r.Err() != nil || !bytes.Equal(room, data) {
		t.Errorf("%v, %v", s.Err(), r.Err())
	}
	send()
	if err := b.Drop(step(), came); err != nil {
		t.Error(err)
	}
	until("dropped", s.Done)
	if err := b.RecvMessage(step(), &r, came, room); s.Err() != nil || !errors.Is(err, ErrMessage) {
		t.Errorf("%v, %v", s.Err(), err)
	}
	for _, l := range []*Layer{a, b} {
		if err := l.CheckIdle(); err != nil {
			t.Error(err)
		}
	}
}

// A small message stays as long as it is kept, and no longer; its sender has less room until then.
func TestActiveKept(t *testing.T) {
	t.Parallel()
	step, until, a, b, to := activePair(t)
	var kept []*Message
	b.HandleActive(7, func(_ btl.Time, m *Message) {
		b.Keep(m)
		b.Keep(m)
		kept = append(kept, m)
	})
	const most = 4096 // EnvelopesMax
	sends := make([]Request, most+10)
	for i := range sends {
		err := a.SendActive(step(), &sends[i], to, 7, []byte{byte(i)}, []byte{1, byte(i >> 8)}, Standard)
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		step()
	}
	if len(kept) != most || b.Stats().UnexpectedBytes != 3*most || sends[most].Done() {
		t.Fatalf("%d have come: %+v", len(kept), b.Stats())
	}
	for i, m := range kept {
		if m.Header()[0] != byte(i) || m.Data()[0] != 1 || m.Data()[1] != byte(i>>8) {
			t.Fatalf("%d: %x, %x", i, m.Header(), m.Data())
		}
		if err := b.Drop(step(), m); err != nil {
			t.Fatal(err)
		}
	}
	until("the rest comes", func() bool { return len(kept) == len(sends) })
	for _, m := range kept[most:] {
		if err := b.Drop(step(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.CheckIdle(); err != nil {
		t.Error(err)
	}
}

// Who sends to an id without a handler learns it where it waits for the other side at all.
func TestActiveUnhandled(t *testing.T) {
	t.Parallel()
	step, until, a, b, to := activePair(t)
	var s Request
	b.HandleActive(2, func(btl.Time, *Message) { t.Error("called") })
	b.HandleActive(2, nil)
	for i, c := range []struct {
		size int
		mode Mode
		want error
	}{{10, Standard, nil}, {10, Synchronous, ErrNoHandler}, {100_000, Ready, ErrNoHandler}} {
		err := a.SendActive(step(), &s, to, 2, nil, make([]byte, c.size), c.mode)
		if err != nil {
			t.Fatal(err)
		}
		until("it is dropped", func() bool { return b.Stats().Unhandled == uint64(i+1) && s.Done() })
		if !errors.Is(s.Err(), c.want) {
			t.Errorf("%d: %v, want %v", i, s.Err(), c.want)
		}
	}
	if err := b.CheckIdle(); err != nil {
		t.Error(err)
	}
}

// What cannot begin is told at once; the end of a peer ends what depends on it, and not what has
// come whole.
func TestActiveErrors(t *testing.T) {
	t.Parallel()
	step, until, a, b, to := activePair(t)
	var s, other, r Request
	want := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	var came []*Message
	b.HandleActive(3, func(_ btl.Time, m *Message) {
		b.Keep(m)
		came = append(came, m)
	})
	want(a.SendActive(step(), &s, to, 3, make([]byte, a.HeaderMax()+1), nil, Standard), ErrHeader)
	want(a.SendActive(step(), &s, to, 3, make([]byte, a.HeaderMax()), nil, Synchronous), nil)
	want(a.SendActive(step(), &s, to, 3, nil, nil, Standard), ErrBusy)
	want(a.SendActive(step(), &other, to, 3, []byte("h"), []byte("whole"), Standard), nil)
	until("both come", func() bool { return len(came) == 2 })
	came[0].Peer().Endpoint().Abort()
	to.Endpoint().Abort()
	until("it is known", func() bool { return to.Err() != nil && came[0].Peer().Err() != nil })
	want(s.Err(), ErrPeer)
	want(a.SendActive(step(), &s, to, 3, nil, nil, Standard), ErrPeer)
	if len(came[0].Header()) != a.HeaderMax() {
		t.Error("its header is gone before it is dropped")
	}
	want(b.RecvMessage(step(), &r, came[0], nil), ErrPeer)
	want(b.Drop(step(), came[0]), ErrMessage)
	room := make([]byte, 5)
	want(b.RecvMessage(step(), &r, came[1], room), nil)
	if string(room) != "whole" {
		t.Errorf("%q", room)
	}
	want(b.CheckIdle(), nil)
}

// To refuse a group of tags is no matter of active messages, whose ids look like tags of one.
func TestRefuseActive(t *testing.T) {
	t.Parallel()
	step, until, a, b, to := activePair(t)
	var s Request
	var came *Message
	b.HandleActive(4, func(_ btl.Time, m *Message) {
		b.Keep(m)
		came = m
	})
	if err := a.SendActive(step(), &s, to, 4, nil, []byte("stays"), Standard); err != nil {
		t.Fatal(err)
	}
	until("it comes", func() bool { return came != nil })
	b.Refuse(step(), 4, ErrCancelled)
	if string(came.Data()) != "stays" {
		t.Errorf("%q", came.Data())
	}
	if err := b.Drop(step(), came); err != nil {
		t.Error(err)
	}
}
