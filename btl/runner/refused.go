package runner

import (
	"cmp"

	"gobtl/btl"
	"gobtl/internal/byhost"
	"gobtl/internal/list"
)

// refusedCalls contains the calls that got ErrAgain, because no send buffers were free, and that
// must be begun again later. Calls for one endpoint are begun in the order in which they were made,
// and calls for different endpoints do not wait for each other. Only the goroutine that owns the
// module may use the fields of refusedCalls.
type refusedCalls struct {
	count int
	by    map[*btl.Endpoint]*refusedQueue
	turns byhost.Turns[*refusedQueue] // all queues; the hosts of their endpoints take turns
	free  list.List[*call]            // calls without an endpoint
	spare *refusedQueue
}

type refusedQueue struct {
	ep    *btl.Endpoint
	calls list.List[*call]
	turn  byhost.Member[*refusedQueue] // in refusedCalls.turns
	next  *refusedQueue
}

// In one poll, the Runner makes at most refusedMax failed attempts to begin calls that wait for
// send buffers. The hosts of the endpoints take turns, one endpoint each, so the calls for a host
// with one endpoint do not wait until the Runner has tried the calls for all endpoints of another
// host.
const refusedMax = 16

// The method "offer" begins a call. If no send buffer is free, or if earlier calls for the same
// endpoint are queued, the method "offer" queues the call.
func (f *refusedCalls) offer(r *Runner, c *call) {
	ep := c.ep
	if ep == nil {
		if !r.begin(c) {
			f.free.PushBack(&c.refused, c)
			f.count++
		}
		return
	}
	q := (*refusedQueue)(nil)
	if len(f.by) > 0 {
		q = f.by[ep]
	}
	if q == nil {
		if r.begin(c) {
			return
		}
		q = f.queue(ep, ep.PeerHost())
	}
	q.calls.PushBack(&c.refused, c)
	f.count++
}

// The method "queue" makes a queue for the calls for an endpoint of the given host.
func (f *refusedCalls) queue(ep *btl.Endpoint, host string) *refusedQueue {
	q := f.spare
	if q == nil {
		q = new(refusedQueue)
		q.turn.What = q
	} else {
		f.spare, q.next = q.next, nil
	}
	q.ep = ep
	if f.by == nil {
		f.by = make(map[*btl.Endpoint]*refusedQueue)
	}
	f.by[ep] = q
	f.turns.Enter(&q.turn, host)
	f.turns.Wait(&q.turn)
	return q
}

// tryAgain begins those queued calls for which send buffers have become free, and returns the
// number of begun calls.
func (f *refusedCalls) tryAgain(r *Runner) (begun int) {
	refused := 0
	var again *call // the first call that was refused again
	for c := f.free.First(); c != nil && c != again && refused < refusedMax/2; c = f.free.First() {
		if c.refused.Remove(); r.begin(c) {
			begun++
			continue
		}
		f.free.PushBack(&c.refused, c)
		again = cmp.Or(again, c)
		refused++
	}
	tried := make([]*refusedQueue, 0, refusedMax)
	for refused+len(tried) < refusedMax {
		turn := f.turns.First()
		if turn == nil {
			break
		}
		q := turn.What
		n, empty := q.advance(r)
		f.turns.Done(turn, false)
		if begun += n; empty {
			f.drop(q)
		} else {
			tried = append(tried, q)
		}
	}
	for _, q := range tried {
		f.turns.Wait(&q.turn)
	}
	f.count -= begun
	return begun
}

func (q *refusedQueue) advance(r *Runner) (n int, empty bool) {
	for ; q.calls.First() != nil; n++ {
		c := q.calls.First()
		if c.refused.Remove(); !r.begin(c) {
			q.calls.PushFront(&c.refused, c)
			return n, false
		}
	}
	return n, true
}

// The method "drop" removes the empty queue q.
func (f *refusedCalls) drop(q *refusedQueue) {
	f.turns.Leave(&q.turn)
	delete(f.by, q.ep)
	q.ep = nil
	q.next, f.spare = f.spare, q
}

// The method "remove" removes an abandoned call from its queue and returns true, or returns false
// if the call is not queued. If the queue of an endpoint becomes empty, the method "remove" removes
// the queue, so that the Runner stores nothing for an endpoint without queued calls.
func (f *refusedCalls) remove(c *call) bool {
	if !c.refused.Listed() {
		return false
	}
	c.refused.Remove()
	f.count--
	if q := f.by[c.ep]; q != nil && q.calls.First() == nil {
		f.drop(q)
	}
	return true
}
