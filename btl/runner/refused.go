package runner

import "gobtl/btl"

// refusedCalls are a Runner's calls for which there were no resources (ErrAgain). Calls for one
// endpoint are begun in order; calls for different endpoints do not wait for each other:
//
//	endpoint A   Get  Get  Get ...     begun from the front, until one is refused again
//	endpoint B   Send Flush
//	no endpoint  Do   Connect  Await   each by itself, in turn
//
// All fields belong to the holder of the token.
type refusedCalls struct {
	count  int
	by     map[*btl.Endpoint]*refusedQueue
	queues []*refusedQueue
	turn   int // of the queue that is looked at first
	free   callQueue
	spare  *refusedQueue
}

// refusedQueue is the queue of refused calls for one endpoint.
type refusedQueue struct {
	ep    *btl.Endpoint
	calls callQueue
	next  *refusedQueue
}

// refusedMax bounds the calls that one pass tries in vain.
const refusedMax = 16

// offer begins a call, or queues it until there are resources, behind earlier calls for the same
// endpoint.
func (f *refusedCalls) offer(r *Runner, c *call) {
	ep := c.ep
	if ep == nil {
		if !r.begin(c) {
			f.free.push(c)
			f.count++
		}
		return
	}
	q := (*refusedQueue)(nil)
	if len(f.queues) > 0 {
		q = f.by[ep]
	}
	if q == nil {
		if r.begin(c) {
			return
		}
		q = f.queue(ep)
	}
	q.calls.push(c)
	f.count++
}

// queue adds a queue for an endpoint.
func (f *refusedCalls) queue(ep *btl.Endpoint) *refusedQueue {
	q := f.spare
	if q == nil {
		q = new(refusedQueue)
	} else {
		f.spare, q.next = q.next, nil
	}
	q.ep = ep
	if f.by == nil {
		f.by = make(map[*btl.Endpoint]*refusedQueue)
	}
	f.by[ep] = q
	f.queues = append(f.queues, q)
	return q
}

// tryAgain begins the calls that now have resources, and returns their number. A queue that is
// refused again is retried in a later pass, after the others.
func (f *refusedCalls) tryAgain(r *Runner) (begun int) {
	refused := 0
	for range f.free.count {
		if refused == refusedMax/2 {
			break
		}
		if c := f.free.pop(); r.begin(c) {
			begun++
		} else {
			f.free.push(c)
			refused++
		}
	}
	for range len(f.queues) {
		if refused >= refusedMax {
			break
		}
		f.turn %= len(f.queues)
		n, empty := f.queues[f.turn].advance(r)
		if begun += n; empty {
			f.drop(f.turn)
		} else {
			refused++
			f.turn++
		}
	}
	f.count -= begun
	return begun
}

// advance begins calls until one is refused.
func (q *refusedQueue) advance(r *Runner) (n int, empty bool) {
	for ; q.calls.first != nil; n++ {
		c := q.calls.pop()
		if !r.begin(c) {
			q.calls.putBack(c)
			return n, false
		}
	}
	return n, true
}

// drop forgets a queue that is empty.
func (f *refusedCalls) drop(i int) {
	q := f.queues[i]
	last := len(f.queues) - 1
	f.queues[i] = f.queues[last]
	f.queues[last] = nil
	f.queues = f.queues[:last]
	delete(f.by, q.ep)
	q.ep = nil
	q.next, f.spare = f.spare, q
}

// callQueue is a queue of calls. A call is in one queue at most.
type callQueue struct {
	first, last *call
	count       int
}

func (q *callQueue) push(c *call) {
	c.queue, c.before = q, q.last
	if q.first == nil {
		q.first = c
	} else {
		q.last.after = c
	}
	q.last = c
	q.count++
}

// pop takes the first call out.
func (q *callQueue) pop() *call {
	c := q.first
	q.remove(c)
	return c
}

// remove takes a call out.
func (q *callQueue) remove(c *call) {
	if c.before != nil {
		c.before.after = c.after
	} else {
		q.first = c.after
	}
	if c.after != nil {
		c.after.before = c.before
	} else {
		q.last = c.before
	}
	c.queue, c.before, c.after = nil, nil, nil
	q.count--
}

// putBack makes a call the first one again.
func (q *callQueue) putBack(c *call) {
	c.queue, c.after = q, q.first
	if q.first == nil {
		q.last = c
	} else {
		q.first.before = c
	}
	q.first = c
	q.count++
}

// remove removes an abandoned call, if it is among the refused ones.
func (f *refusedCalls) remove(c *call) bool {
	if c.queue == nil {
		return false
	}
	c.queue.remove(c)
	f.count--
	return true
}
