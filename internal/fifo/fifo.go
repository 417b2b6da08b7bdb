// Package fifo is a queue in a ring, for what waits in an endpoint of a provider: buffers that are
// posted, sends whose completion nobody has polled yet.
//
//	items:  | 7 | 8 |   |   | 4 | 5 | 6 |      pushed behind 8, popped at 4
//	                          ^ head
//
// It checks nothing on the way, for its owner knows the bound of what it holds: Len and Full come
// before Push and Pop. One goroutine owns a Queue.
package fifo

// growFirst is the room that Grow gives to a Queue without any.
const growFirst = 64

// Queue is a queue of bounded length. The zero value has no room.
type Queue[T any] struct {
	items []T
	head  int
	count int
}

// New returns an empty queue with room for capacity items.
func New[T any](capacity int) Queue[T] { return Queue[T]{items: make([]T, capacity)} }

// Len is the number of items in the queue.
func (q *Queue[T]) Len() int { return q.count }

// Cap is the number of items that the queue has memory for.
func (q *Queue[T]) Cap() int { return len(q.items) }

// Full says that there is no room for another item.
func (q *Queue[T]) Full() bool { return q.count == len(q.items) }

// Grow makes room for another item if the queue is full, by doubling, up to limit items. It does
// nothing to a queue that has room for limit items already.
func (q *Queue[T]) Grow(limit int) {
	if !q.Full() || len(q.items) >= limit {
		return
	}
	bigger := make([]T, min(max(2*len(q.items), growFirst), limit))
	n := copy(bigger, q.items[q.head:])
	copy(bigger[n:], q.items[:q.head])
	q.items, q.head = bigger, 0
}

// Push adds an item at the end. The queue must not be Full.
func (q *Queue[T]) Push(v T) {
	i := q.head + q.count
	if i >= len(q.items) {
		i -= len(q.items)
	}
	q.items[i] = v
	q.count++
}

// Front returns the oldest item, in its place: valid until it is popped or the queue grows. The
// queue must not be empty.
func (q *Queue[T]) Front() *T { return &q.items[q.head] }

// Pop takes the oldest item out. The queue must not be empty. What it referred to is kept from the
// garbage collector until another item takes its place.
func (q *Queue[T]) Pop() T {
	v := q.items[q.head]
	q.head++
	if q.head == len(q.items) {
		q.head = 0
	}
	q.count--
	return v
}
