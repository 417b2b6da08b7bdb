package frag

import (
	"errors"
	"testing"
)

// TestReserve: what is reserved is added; what is refused has changed nothing.
func TestReserve(t *testing.T) {
	p, peers := newGrowing(t, PoolConfig{FragBytesMax: 4 << 20, BytesMax: 16 << 20}, 1)
	a := peers[0]
	h0, n := growHeader(1, 2*growRoom, 0)
	h1, _ := growHeader(1, 2*growRoom, 1)
	r, err := a.Reserve(&h0, n, true, nil)
	if err != nil || !r.Begun || r.whole != nil {
		t.Fatalf("the first chunk: %+v, %v", r, err)
	}
	for range 2 { // a reservation is no chunk
		if msg, err := a.Add(&h0, make([]byte, n), true); msg != nil || err != nil && !errors.Is(err,
			ErrOverlap) {
			t.Fatal(msg, err)
		}
	}
	if _, err = a.Reserve(&h0, n, true, nil); !errors.Is(err, ErrOverlap) {
		t.Errorf("a chunk that is here: %v", err)
	}
	other := h1
	other.Tag++
	if _, err = a.Reserve(&other, n, true, nil); !errors.Is(err, ErrMismatch) {
		t.Errorf("a chunk of another tag: %v", err)
	}
	if r, err = a.Reserve(&h1, n, true, nil); err != nil || r.Begun || r.whole == nil {
		t.Fatalf("the last chunk: %+v, %v", r, err)
	}
	msg, err := a.Add(&h1, make([]byte, n), true)
	if err != nil || msg == nil {
		t.Fatal(msg, err)
	}
	msg.Release()
	if err := errors.Join(p.Check(), a.Check()); err != nil || p.ActiveBytes() != 0 {
		t.Error(p.ActiveBytes(), err)
	}
}

// TestReserveLeaving: a fragment begins where another one ends that has all the memory; not
// otherwise, and not for who has not got everything before.
func TestReserveLeaving(t *testing.T) {
	const sizeBytes = 2 * growRoom
	p, peers := newGrowing(t, PoolConfig{FragBytesMax: sizeBytes, BytesMax: sizeBytes}, 1)
	a := peers[0]
	add := func(id, chunk uint32) *Message {
		t.Helper()
		h, n := growHeader(id, sizeBytes, chunk)
		msg, err := a.Add(&h, make([]byte, n), true)
		if err != nil {
			t.Fatal(err)
		}
		return msg
	}
	add(1, 0)
	end, n := growHeader(1, sizeBytes, 1)
	next, _ := growHeader(2, sizeBytes, 0)
	first, err := a.Reserve(&end, n, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = a.Reserve(&next, n, true, nil); !errors.Is(err, ErrBudget) {
		t.Errorf("the next one beside the first: %v", err)
	}
	if _, err = a.Reserve(&next, n, false, &first); !errors.Is(err, ErrBudget) {
		t.Errorf("the next one behind a gap: %v", err)
	}
	if a.Active() != 1 || p.ActiveBytes() != sizeBytes {
		t.Errorf("%d fragments, %d bytes for what was refused", a.Active(), p.ActiveBytes())
	}
	second, err := a.Reserve(&next, n, true, &first)
	if err != nil || !second.Begun {
		t.Fatalf("the next one where the first ends: %+v, %v", second, err)
	}
	add(1, 1).Release()
	add(2, 0)
	if err := errors.Join(p.Check(), a.Check()); err != nil {
		t.Error(err)
	}
	add(2, 1).Release()
	if p.ActiveBytes() != 0 || p.CheckIdle() != nil {
		t.Error(p.ActiveBytes(), p.CheckIdle())
	}
}
