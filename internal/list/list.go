// Package list has doubly linked lists whose links are fields of the listed values, so no operation
// allocates memory.
//
//	+--> ends of the List <--> Node of a <--> Node of b <--> Node of c <--+
//	+---------------------------------------------------------------------+
//
// A value with two Nodes can be in two lists at the same time. A Node must not be copied while it
// is in a list, and a List must not be copied after its first use. All methods except Len and Check
// take constant time. One goroutine owns a List and its Nodes.
package list

import "errors"

// Node is the place of a value in a list, and is a field of the value. A zero Node is in no list.
type Node[T any] struct {
	of         T
	next, prev *Node[T] // neighbours in the ring of the list; nil if the Node is in no list
}

// List is a list of values of the type T, which is a pointer type. A zero List is empty.
type List[T any] struct {
	ends Node[T] // next is the first Node, and prev is the last one; the zero value before first use
}

// First returns the first value of the list, or nil if the list is empty.
func (l *List[T]) First() (v T) {
	if n := l.ends.next; n != nil {
		v = n.of
	}
	return v
}

// Last returns the last value of the list, or nil if the list is empty.
func (l *List[T]) Last() (v T) {
	if n := l.ends.prev; n != nil {
		v = n.of
	}
	return v
}

// PushBack adds a value at the end of the list. The Node n of the value must be in no list.
func (l *List[T]) PushBack(n *Node[T], v T) {
	l.begin()
	n.of = v
	n.link(l.ends.prev, &l.ends)
}

// PushFront adds a value at the front of the list. The Node n of the value must be in no list.
func (l *List[T]) PushFront(n *Node[T], v T) {
	l.begin()
	n.of = v
	n.link(&l.ends, l.ends.next)
}

// The method "begin" closes the ring of a zero List.
func (l *List[T]) begin() {
	if l.ends.next == nil {
		l.ends.next, l.ends.prev = &l.ends, &l.ends
	}
}

// The method "link" links n into a ring, between two neighbours.
func (n *Node[T]) link(prev, next *Node[T]) {
	n.prev, n.next = prev, next
	prev.next, next.prev = n, n
}

// Listed reports whether the Node is in a list.
func (n *Node[T]) Listed() bool { return n.next != nil }

// Next returns the value behind the Node's value, or nil if the Node's value is the last one or the
// Node is in no list.
func (n *Node[T]) Next() (v T) {
	if n.next != nil {
		v = n.next.of
	}
	return v
}

// Remove removes the Node's value from the list that contains it. If the Node is in no list, Remove
// does nothing.
func (n *Node[T]) Remove() {
	if n.next != nil {
		n.prev.next, n.next.prev = n.next, n.prev
		*n = Node[T]{}
	}
}

// Len counts the values of the list.
func (l *List[T]) Len() (count int) {
	for n := l.ends.next; n != nil && n != &l.ends; n = n.next {
		count++
	}
	return count
}

// Check returns an error if the links of the list do not match, and otherwise nil.
func (l *List[T]) Check() error {
	if l.ends.next == nil {
		return nil
	}
	for n := &l.ends; ; n = n.next {
		switch {
		case n.next == nil || n.next.prev != n:
			return errors.New("links of a list do not match")
		case n.next == &l.ends:
			return nil
		}
	}
}
