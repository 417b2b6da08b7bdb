package mpi

// A waiter is a call that waits for the end of requests, or for a condition.
type waiter struct {
	left   int // requests that have not ended
	ready  func() bool
	parked bool
	wake   chan struct{}
	next   *waiter
}

func (w *waiter) over() bool { return w.left <= 0 || w.ready != nil && w.ready() }

// A waitQueue holds the calls that sleep while another call polls the transport, and wakes these
// calls. A waitQueue also keeps the waiters of earlier calls for reuse. The zero value is an empty
// queue. The engine's mu guards each waitQueue.
type waitQueue struct {
	parked *waiter // the sleeping calls, the latest first
	walk   *waiter // the next call that wakeReady examines
	spare  *waiter // unused waiters
}

// The method "get" returns a waiter for a call that waits for the given number of requests.
func (q *waitQueue) get(left int) *waiter {
	w := q.spare
	if w == nil {
		w = &waiter{wake: make(chan struct{}, 1)}
	} else {
		q.spare = w.next
	}
	w.left, w.next, w.ready = left, nil, nil
	return w
}

// The method "put" stores the waiter of a call that has stopped waiting, for reuse.
func (q *waitQueue) put(w *waiter) {
	w.next, w.ready = q.spare, nil
	q.spare = w
}

func (q *waitQueue) empty() bool { return q.parked == nil }

// The method "add" adds a call that is going to sleep until it receives from the channel w.wake.
func (q *waitQueue) add(w *waiter) {
	w.parked, w.next = true, q.parked
	q.parked = w
}

// The method "remove" removes a call that has stopped sleeping. If the call was woken but has not
// received from the channel w.wake, the method "remove" empties the channel.
func (q *waitQueue) remove(w *waiter) {
	if w.parked {
		q.unlink(w)
		return
	}
	select {
	case <-w.wake:
	default:
	}
}

// countDown records that a request for which a call waits has ended, and wakes the call if its
// condition is fulfilled.
func (q *waitQueue) countDown(w *waiter) {
	if w.left--; w.over() && w.parked {
		q.wake(w)
	}
}

// If calls sleep, wakeOne wakes the call that went to sleep most recently.
func (q *waitQueue) wakeOne() {
	if q.parked != nil {
		q.wake(q.parked)
	}
}

// wakeReady wakes the sleeping calls whose conditions are fulfilled. The function that tests a
// condition can drop messages, and thereby end requests and wake other calls. If the field "walk"
// refers to a call that is woken, the method "unlink" advances the field "walk" to the next
// sleeping call.
func (q *waitQueue) wakeReady() {
	for q.walk = q.parked; q.walk != nil; {
		w := q.walk
		q.walk = w.next
		if w.ready != nil && w.over() && w.parked {
			q.wake(w)
		}
	}
}

// The method "wake" wakes a call that sleeps.
func (q *waitQueue) wake(w *waiter) {
	q.unlink(w)
	w.wake <- struct{}{}
}

func (q *waitQueue) unlink(w *waiter) {
	if q.walk == w {
		q.walk = w.next
	}
	for at := &q.parked; *at != nil; at = &(*at).next {
		if *at == w {
			*at, w.next, w.parked = w.next, nil, false
			return
		}
	}
}
