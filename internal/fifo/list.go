package fifo

// List is a first-in-first-out list without a limit, in which Push and Pop take constant time on
// average. The zero List is empty. The caller limits the number of items.
type List[T any] struct {
	items []T
	head  int // index of the oldest item
}

// Len is the number of items in the list.
func (l *List[T]) Len() int { return len(l.items) - l.head }

// All returns the items of the list, the oldest first, and does not remove them. The result of All
// is valid until the next Push or Pop.
func (l *List[T]) All() []T { return l.items[l.head:] }

// Push adds an item at the end of the list.
func (l *List[T]) Push(v T) { l.items = append(l.items, v) }

// Pop removes and returns the oldest item. The result "ok" of Pop is false if the list is empty,
// and otherwise true.
func (l *List[T]) Pop() (v T, ok bool) {
	if l.head == len(l.items) {
		return v, false
	}
	var zero T
	v, l.items[l.head] = l.items[l.head], zero
	if l.head++; 2*l.head >= len(l.items) { // half of the slice is unused
		n := copy(l.items, l.items[l.head:])
		clear(l.items[n:])
		l.items, l.head = l.items[:n], 0
	}
	return v, true
}
