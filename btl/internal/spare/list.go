package spare

// ListMax is the maximum number of unused values that a List keeps.
const ListMax = 4096

// List keeps unused values of the type T, so that they are used again instead of new ones. A zero
// List is empty.
type List[T any] struct{ idle []*T }

// Take returns the value that was given last, or a new value if the list is empty.
func (l *List[T]) Take() *T {
	last := len(l.idle) - 1
	if last < 0 {
		return new(T)
	}
	v := l.idle[last]
	l.idle = l.idle[:last]
	return v
}

// Give keeps an unused value, unless the list is full.
func (l *List[T]) Give(v *T) {
	if len(l.idle) < ListMax {
		l.idle = append(l.idle, v)
	}
}
