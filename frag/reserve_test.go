package frag

import (
	"errors"
	"strings"
	"testing"
)

// TestReserve checks that a reserved chunk can be added, and that a refused reservation changes
// nothing.
func TestReserve(t *testing.T) {
	p, peers := newGrowing(t, PoolConfig{FragBytesMax: 4 << 20, BytesMax: 16 << 20}, 1)
	a := peers[0]
	h0, n := growHeader(1, 2*growRoom, 0)
	h1, _ := growHeader(1, 2*growRoom, 1)
	r, err := a.Reserve(&h0, n, true, nil)
	if err != nil || !r.Begun || r.whole != nil {
		t.Fatalf("the first chunk: %+v, %v", r, err)
	}
	for range 2 { // a reservation adds no chunk
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

// TestReserveLeaving checks a fragment that begins in the packet that ends another fragment which
// has all the memory. In other cases, or out of order, the fragment is refused.
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

// TestReserveStarter checks two peers. Each peer has a fragment that ends in a packet in which a
// larger fragment begins, and there is no memory for the larger fragment. The peers must not wait
// for each other. The larger fragment gets memory for its first packet, until the pool has memory.
func TestReserveStarter(t *testing.T) {
	const small, large = 2 * growRoom, 3 * growRoom
	p, peers := newGrowing(t, PoolConfig{
		FragBytesMax: large, BytesMax: 2 * classBytes(classOf(small)),
	}, 2)
	for _, a := range peers {
		h, n := growHeader(1, small, 0)
		if _, err := a.Add(&h, make([]byte, n), true); err != nil {
			t.Fatal(err)
		}
	}
	next, n := growHeader(2, large, 0)
	for i, a := range peers {
		end, endBytes := growHeader(1, small, 1)
		first, err := a.Reserve(&end, endBytes, true, nil)
		if err != nil {
			t.Fatal(err)
		}
		before := p.ActiveBytes()
		second, err := a.Reserve(&next, n, true, &first)
		if err != nil || !second.Begun || p.ActiveBytes() != before {
			t.Fatalf("peer %d: %+v, %v, %d bytes of %d before", i, second, err, p.ActiveBytes(), before)
		}
		another, _ := growHeader(3, large, 0)
		if _, err = a.Reserve(&another, n, true, &first); !errors.Is(err, ErrBudget) {
			t.Errorf("peer %d has two packets beside the budget: %v", i, err)
		}
	}
	for _, a := range peers { // as if both packs arrived before either fragment was released
		if _, err := a.Add(&next, []byte(letters(n)), true); err != nil {
			t.Fatal(err)
		}
		if err := a.Check(); err != nil {
			t.Fatal(err)
		}
	}
	more, n1 := growHeader(2, large, 1)
	if _, err := peers[0].Add(&more, make([]byte, n1), true); !errors.Is(err, ErrBudget) {
		t.Errorf("more of it, while there is no memory: %v", err)
	}
	for _, a := range peers {
		end, endBytes := growHeader(1, small, 1)
		msg, err := a.Add(&end, make([]byte, endBytes), true)
		if err != nil || msg == nil {
			t.Fatal(msg, err)
		}
		msg.Release()
	}
	for i, a := range peers {
		if _, err := a.Add(&more, make([]byte, n1), false); !errors.Is(err, ErrBudget) {
			t.Errorf("peer %d: behind a gap: %v", i, err)
		}
		var msg *Message
		for chunk := uint32(1); chunk < 3; chunk++ {
			h, n := growHeader(2, large, chunk)
			var err error
			if msg, err = a.Add(&h, make([]byte, n), true); err != nil {
				t.Fatal(err)
			}
		}
		if msg == nil || string(msg.Bytes[:n]) != letters(n) {
			t.Fatalf("peer %d: not whole, or not what came", i)
		}
		msg.Release()
	}
	if err := p.Check(); err != nil || p.ActiveBytes() != 0 {
		t.Error(p.ActiveBytes(), err)
	}
}

func letters(n int) string { return strings.Repeat("x", n) }

// TestReserveStarterLeaves checks that a fragment with the memory of one packet is removed like any
// other fragment.
func TestReserveStarterLeaves(t *testing.T) {
	const size = 2 * growRoom
	for name, leave := range map[string]func(a *Assembler){
		"forgotten": func(a *Assembler) { a.Forget(2) },
		"dropped":   (*Assembler).Drop,
	} {
		p, peers := newGrowing(t, PoolConfig{
			FragBytesMax: 2 * size, BytesMax: 2 * classBytes(classOf(size)),
		}, 2)
		for _, a := range peers {
			h, n := growHeader(1, size, 0)
			if _, err := a.Add(&h, make([]byte, n), true); err != nil {
				t.Fatal(err)
			}
		}
		a := peers[0]
		end, endBytes := growHeader(1, size, 1)
		first, err := a.Reserve(&end, endBytes, true, nil)
		if err != nil {
			t.Fatal(err)
		}
		h, n := growHeader(2, 2*size, 0)
		if r, err := a.Reserve(&h, n, true, &first); err != nil || !r.Begun || !a.starter {
			t.Fatalf("%+v, %v", r, err)
		}
		leave(a)
		if err := errors.Join(a.Check(), p.Check()); err != nil || a.starter {
			t.Errorf("%s: %v, %v", name, a.starter, err)
		}
	}
}
