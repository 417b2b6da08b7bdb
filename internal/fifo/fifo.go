package fifo

import "math"

// The first call of Grow allocates memory for growFirst items.
const growFirst = 64

// Queue is a queue of limited length. The zero Queue has room for no items.
type Queue[T any] struct {
	items []T
	head  int
	count int
}

// New returns an empty queue with room for the given number of items.
func New[T any](capacity int) Queue[T] { return Queue[T]{items: make([]T, capacity)} }

// Len is the number of items in the queue.
func (q *Queue[T]) Len() int { return q.count }

// Cap is the number of items for which the queue has memory.
func (q *Queue[T]) Cap() int { return len(q.items) }

// Full reports whether the queue is full, so that Push must not be called.
func (q *Queue[T]) Full() bool { return q.count == len(q.items) }

// Grow doubles the capacity of a full queue, but to at most the given limit. If the queue is not
// full, or already has the capacity "limit", Grow does nothing.
func (q *Queue[T]) Grow(limit int) {
	if !q.Full() || len(q.items) >= limit {
		return
	}
	bigger := make([]T, min(max(2*len(q.items), growFirst), limit))
	n := copy(bigger, q.items[q.head:])
	copy(bigger[n:], q.items[:q.head])
	q.items, q.head = bigger, 0
}

// Push adds an item at the end of the queue, which must not be full.
func (q *Queue[T]) Push(v T) {
	i := q.head + q.count
	if i >= len(q.items) {
		i -= len(q.items)
	}
	q.items[i] = v
	q.count++
}

// Append adds an item at the end of the queue. A full queue grows without a limit.
func (q *Queue[T]) Append(v T) {
	q.Grow(math.MaxInt)
	q.Push(v)
}

// At returns a pointer to an item of the queue. The oldest item has the index 0. The pointer that
// At returns is valid until the item is popped or the queue grows.
func (q *Queue[T]) At(i int) *T {
	if i += q.head; i >= len(q.items) {
		i -= len(q.items)
	}
	return &q.items[i]
}

// Front returns a pointer to the oldest item. The pointer that Front returns is valid until the
// item is popped or the queue grows. The queue must not be empty.
func (q *Queue[T]) Front() *T { return &q.items[q.head] }

// Pop removes and returns the oldest item of the queue, which must not be empty. Pop does not clear
// the item in the queue's memory. Because Pop does not clear the item, the garbage collector does
// not free memory to which the popped item points until a later Push overwrites the item.
func (q *Queue[T]) Pop() T {
	v := q.items[q.head]
	q.head++
	if q.head == len(q.items) {
		q.head = 0
	}
	q.count--
	return v
}
