package keep

import (
	"fmt"
	"testing"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
)

// store returns a Store of a port without spare buffers, so that all data is copied.
func store() *Store {
	s := new(Store)
	s.packets, s.arena = new(port.Keeper), new(fabric.Arena)
	return s
}

// Messages come out of the queue in order, and a released copy's memory is used again.
func TestQueueOrder(t *testing.T) {
	var q Queue[int]
	q.Init(store(), BoundsMax())
	for round := range 3 {
		for i := range 5 {
			if place := q.Push(i, uint8(i+1), fmt.Append(nil, "message ", i)); place != Copy {
				t.Fatalf("in place %v", place)
			}
		}
		for i := range 5 {
			it, ok := q.Pop()
			if want := fmt.Sprint("message ", i); !ok || it.From != i || it.Tag != uint8(i+1) ||
				string(it.Bytes()) != want {
				t.Fatalf("round %d: %v, %q from %d, want %q", round, ok, it.Bytes(), it.From, want)
			}
			q.Recycle(&it.Data)
			if it.Bytes() != nil {
				t.Error("the data is still there after Recycle")
			}
		}
		if _, ok := q.Pop(); ok {
			t.Error("a message more")
		}
		if n := len(q.own); n != 5 {
			t.Errorf("%d buffers are kept for copies, want 5", n)
		}
		if err := q.Check(); err != nil {
			t.Error(err)
		}
	}
}

// A queue is full from a bound on, of messages or of copied bytes, and no longer after Pop.
func TestQueueFull(t *testing.T) {
	for _, b := range []Bounds{{3, 1 << 20}, {1 << 20, 300}} {
		var q Queue[int]
		q.Init(store(), b)
		for i := range 3 {
			if q.Full() {
				t.Errorf("%+v: full of %d", b, i)
			}
			q.Push(0, 1, make([]byte, 100))
		}
		if !q.Full() {
			t.Errorf("%+v: not full", b)
		}
		if q.Pop(); q.Full() {
			t.Errorf("%+v: full after Pop", b)
		}
		if err := q.Check(); err != nil {
			t.Error(err)
		}
	}
}

// The memory for copies that waits for its next use has a bound.
func TestRecycleBounded(t *testing.T) {
	var q Queue[int]
	q.Init(store(), BoundsMax())
	q.Push(0, 1, make([]byte, ownBytesMax+1))
	for range 2 * ownMax {
		q.Push(0, 1, make([]byte, 10))
	}
	for it, ok := q.Pop(); ok; it, ok = q.Pop() {
		q.Recycle(&it.Data)
	}
	if n := len(q.own); n != ownMax {
		t.Errorf("%d buffers are kept, want %d", n, ownMax)
	}
	for _, b := range q.own {
		if cap(b) > ownBytesMax {
			t.Errorf("a buffer of %d bytes is kept", cap(b))
		}
	}
}

// Release makes Data empty, and a second call does nothing.
func TestReleaseTwice(t *testing.T) {
	s := store()
	var d Data
	s.Keep(&d, []byte("kept"))
	own := &d.own[0]
	for range 2 {
		d.Release()
		if d.Place() != Nowhere || d.Bytes() != nil {
			t.Errorf("%q in place %v after Release", d.Bytes(), d.Place())
		}
	}
	if s.Keep(&d, []byte("more")); &d.own[0] != own {
		t.Error("the memory is not used again")
	}
}
