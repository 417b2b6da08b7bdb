package mpi

import "testing"

// The condition of a call that sleeps can wake other sleeping calls. The calls behind them are
// examined in the same pass, and no call is woken twice.
func TestWakeReady(t *testing.T) {
	q := &waitQueue{}
	var calls [4]*waiter // in the order of the list
	for i := range calls {
		calls[i] = &waiter{left: 1, wake: make(chan struct{}, 1), parked: true}
	}
	for i := range calls[1:] {
		calls[i].next = calls[i+1]
	}
	q.parked = calls[0]
	calls[0].ready = func() bool { // ends a request that the next call waits for
		q.countDown(calls[1])
		return false
	}
	calls[2].ready = func() bool {
		q.wake(calls[2])
		return true
	}
	calls[3].ready = func() bool { return true }
	q.wakeReady()
	for i, w := range calls {
		if woken := len(w.wake) > 0; woken != (i > 0) || w.parked == woken {
			t.Errorf("call %d: woken %v, asleep %v", i, woken, w.parked)
		}
	}
	if q.parked != calls[0] || calls[0].next != nil {
		t.Error("the list of sleeping calls is wrong")
	}
}

// A call that was woken while it gave up is not woken again when its waiter is used anew.
func TestWaitQueue(t *testing.T) {
	var q waitQueue
	if q.wakeOne(); !q.empty() {
		t.Fatal("an empty queue is not empty")
	}
	first, last := q.get(2), q.get(1)
	q.add(first)
	q.add(last)
	if q.wakeOne(); len(first.wake) != 0 || len(last.wake) != 1 || last.parked {
		t.Error("not the call that came last is woken")
	}
	if q.remove(last); len(last.wake) != 0 {
		t.Error("a call that was woken stays woken")
	}
	if q.countDown(first); len(first.wake) != 0 || first.left != 1 {
		t.Error("a call is woken before its last request has ended")
	}
	q.remove(first)
	if q.countDown(first); !q.empty() || first.parked || len(first.wake) != 0 {
		t.Error("a call that does not sleep is woken")
	}
	q.put(first)
	if w := q.get(7); w != first || w.left != 7 || w.ready != nil || w.next != nil {
		t.Errorf("a used waiter comes back as %+v", w)
	}
	if n := testing.AllocsPerRun(100, func() { q.put(q.get(1)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
