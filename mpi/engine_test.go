package mpi

import (
	"testing"

	"gobtl/pml"
)

// The condition of a call that sleeps can wake other sleeping calls. The calls behind them are
// examined in the same pass, and no call is woken twice.
func TestWakeReady(t *testing.T) {
	e := &engine{}
	var calls [4]*waiter // in the order of the list
	for i := range calls {
		calls[i] = &waiter{left: 1, wake: make(chan struct{}, 1), parked: true}
	}
	for i := range calls[1:] {
		calls[i].next = calls[i+1]
	}
	e.parked = calls[0]
	calls[0].ready = func() bool { // ends a request that the next call waits for
		e.end(&Request{waiter: calls[1]})
		return false
	}
	calls[2].ready = func() bool {
		e.poke(calls[2])
		return true
	}
	calls[3].ready = func() bool { return true }
	wakeReady(e)
	for i, w := range calls {
		if woken := len(w.wake) > 0; woken != (i > 0) || w.parked == woken {
			t.Errorf("call %d: woken %v, asleep %v", i, woken, w.parked)
		}
	}
	if e.parked != calls[0] || calls[0].next != nil {
		t.Error("the list of sleeping calls is wrong")
	}
}

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
