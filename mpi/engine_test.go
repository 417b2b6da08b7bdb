package mpi

import (
	"testing"

	"gobtl/pml"
)

// The end of a second connection of a rank does not release the locks that the rank holds.
func TestLockAfterSecondConnection(t *testing.T) {
	for _, second := range []bool{true, false} {
		e := &engine{}
		w := &window{c: &Comm{e: e, ranks: []int{0, 1}}}
		w.server.holders, w.server.alone = []lockKind{lockNone, lockAlone}, 1
		e.windows = []*window{w}
		p := &pml.Peer{Context: &member{rank: 1, second: second}}
		e.peerGone(p, pml.ErrPeer)
		if held := w.server.holders[1] == lockAlone && w.server.alone == 1; held != second {
			t.Errorf("second %v: the lock is held: %v", second, held)
		}
	}
}

// A request that was put keeps nothing of its call, and the next call gets it.
func TestRequestPool(t *testing.T) {
	var p requestPool
	first, second := p.get(), p.get()
	first.c, first.size, first.active, first.waiter = &Comm{}, 8, true, &waiter{}
	p.put(first)
	p.put(second)
	if p.get() != second || p.get() != first || p.free != nil {
		t.Error("the requests do not come back")
	}
	if first.c != nil || first.size != 0 || first.active || first.waiter != nil {
		t.Errorf("a request keeps what it had: %+v", first)
	}
	if n := testing.AllocsPerRun(100, func() { p.put(first); first = p.get() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
