package byhost

// The type "node" contains the place of a value in a list, and is a field of the value itself.
type node[T any] struct {
	of         T // the value
	next, prev *node[T]
	listed     bool
}

// The type "list" is an intrusive doubly linked list.
type list[T any] struct{ first, last *node[T] }

// The method "add" appends a node that is in no list.
func (l *list[T]) add(n *node[T]) {
	n.prev, n.next, n.listed = l.last, nil, true
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
}

// The method "remove" removes a node that is in the list.
func (l *list[T]) remove(n *node[T]) {
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.prev, n.next, n.listed = nil, nil, false
}
