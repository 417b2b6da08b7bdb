package pml

import (
	"bytes"
	"errors"
	"testing"

	"gobtl/btl"
)

// Persistent requests do the same again and again, small and large, and allocate nothing when they
// are started; a receive from any with any tag wants any each time.
func TestPersistent(t *testing.T) {
	step, a, b, to := memPair(t)
	for _, size := range []int{0, 8, 200 << 10} {
		var s, r [2]Request
		data, rooms := make([]byte, size), [2][]byte{make([]byte, size), make([]byte, size)}
		ok := func(err error) {
			if err != nil {
				t.Helper()
				t.Fatal(err)
			}
		}
		for i := range s {
			ok(a.SendInit(&s[i], to, uint64(i+5), data, Mode(i))) // Standard and Synchronous
			ok(b.RecvInit(&r[i], nil, 0, 0, rooms[i]))
		}
		turn := byte(0)
		once := func() {
			turn++
			for i := range data {
				data[i] = turn + byte(i)
			}
			now := step()
			for _, in := range []*Request{&r[0], &r[1]} {
				ok(b.Start(now, in))
			}
			n, err := a.StartAll(now, []*Request{&s[0], &s[1]})
			if ok(err); n != 2 {
				t.Fatalf("%d have begun", n)
			}
			for i := 0; !r[0].Done() || !r[1].Done() || !s[0].Done() || !s[1].Done(); i++ {
				if step(); i > 10_000 {
					t.Fatalf("%d bytes: not done", size)
				}
			}
			for i := range r {
				if r[i].Err() != nil || r[i].Tag() != uint64(i+5) || !bytes.Equal(rooms[i], data) {
					t.Fatalf("%d bytes, turn %d: tag %d, %v", size, turn, r[i].Tag(), r[i].Err())
				}
			}
		}
		for range 100 {
			once()
		}
		if size == 8 { // of which no more than two are under way
			for range 20_000 {
				once()
			}
			if n := testing.AllocsPerRun(500, once); n != 0 {
				t.Errorf("%v allocations", n)
			}
		}
	}
}

// Who starts what was not readied, or is under way, is told; other uses end the readiness.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	step, a, b, to := memPair(t)
	var s, r Request
	want := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	now := step()
	want(a.Start(now, &s), ErrNotInit)
	want(b.RecvInit(&r, nil, 1, exactly, nil), nil)
	want(b.Start(now, &r), nil)
	want(b.Start(now, &r), ErrBusy)
	want(b.RecvInit(&r, nil, 1, exactly, nil), ErrBusy)
	want(b.SendInit(&r, nil, 1, nil, Standard), ErrBusy)
	if !b.Cancel(&r) {
		t.Fatal("not cancelled")
	}
	want(b.Start(now, &r), nil) // once more
	if !b.Cancel(&r) {
		t.Fatal("not cancelled")
	}
	want(b.Recv(now, &r, nil, 1, exactly, nil), nil)
	b.Cancel(&r)
	want(b.Start(now, &r), ErrNotInit)

	want(a.SendInit(&s, to, 2, nil, Standard), nil)
	n, err := a.StartAll(now, []*Request{&s, {}, &s})
	if want(err, ErrNotInit); n != 1 {
		t.Fatalf("%d have begun", n)
	}
	for range 100 {
		step()
	}
	want(a.Send(step(), &s, to, 2, nil, Standard), nil)
	for range 100 {
		step()
	}
	want(a.Start(step(), &s), ErrNotInit)
	want(a.SendInit(&s, to, 3, nil, Synchronous), nil)
	want(a.Start(step(), &s), nil)
	for range 100 {
		step()
	}
	if s.Done() {
		t.Fatal("a synchronous send is done, and nobody has received it")
	}
	want(b.Recv(step(), &r, nil, 3, exactly, nil), nil)
	for range 100 {
		step()
	}
	m := b.MProbe(nil, 2, exactly)
	want(b.RecvInit(&r, nil, 2, exactly, nil), nil)
	want(b.RecvMessage(step(), &r, m, nil), nil)
	want(b.Start(step(), &r), ErrNotInit)

	want(a.SendInit(&s, to, 2, nil, Standard), nil)
	to.Endpoint().Abort()
	for range 100 {
		step()
	}
	want(a.Start(step(), &s), ErrPeer)
	want(a.Start(step(), &s), btl.ErrClosed)
}

// A request that ends may be started by its OnDone.
func TestStartInOnDone(t *testing.T) {
	t.Parallel()
	step, a, b, to := memPair(t)
	var s, r Request
	left, came := 50, 0
	s.OnDone = func(s *Request) {
		if left--; left > 0 {
			if err := a.Start(to.Endpoint().Now(), s); err != nil {
				t.Error(err)
			}
		}
	}
	r.OnDone = func(r *Request) {
		if came++; came < 50 {
			if err := b.Start(r.Peer().Endpoint().Now(), r); err != nil {
				t.Error(err)
			}
		}
	}
	_ = b.RecvInit(&r, nil, 1, exactly, make([]byte, 8))
	_ = a.SendInit(&s, to, 1, make([]byte, 8), Standard)
	if err := errors.Join(b.Start(step(), &r), a.Start(step(), &s)); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		step()
	}
	if left != 0 || came != 50 {
		t.Errorf("%d are left, %d have come", left, came)
	}
}
