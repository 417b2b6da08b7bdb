package sim

import "gobtl/internal/mono"

// The constants in this block are the actions that a timer can cause.
const (
	timerArrive = 1 + iota // ref: a packet
	timerLeave             // ref: an endpoint with a late send
	timerCall              // ref: a function given to At
)

// timer is a future event.
type timer struct {
	at   mono.Time
	seq  uint64 // orders timers at the same instant by creation
	ref  uint32
	what uint8
}

func (t *timer) before(u *timer) bool { return t.at < u.at || t.at == u.at && t.seq < u.seq }

// timerHeap is a 4-ary heap.
type timerHeap []timer

func (h *timerHeap) push(t timer) {
	*h = append(*h, t)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !t.before(&s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = t
}

// pop removes and returns the earliest timer. The heap must not be empty.
func (h *timerHeap) pop() timer {
	s := *h
	first, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= len(s) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(s)); c++ {
			if s[c].before(&s[least]) {
				least = c
			}
		}
		if !s[least].before(&last) {
			break
		}
		s[i] = s[least]
		i = least
	}
	s[i] = last
	return first
}

// passHeap is a binary heap of all nodes, ordered by the times of their next calls of Progress. In
// the order of the heap, a node without a planned call of Progress has the time mono.Never.
type passHeap []*Node

func (h passHeap) less(a, b *Node) bool {
	return a.passAt < b.passAt || a.passAt == b.passAt && a.index < b.index
}

func (h *passHeap) add(n *Node) {
	n.place = len(*h)
	*h = append(*h, n)
	h.up(n)
}

// The method "moved" restores the order of the heap after the time n.passAt of the node n has
// changed.
func (h passHeap) moved(n *Node) {
	h.up(n)
	h.down(n)
}

func (h passHeap) up(n *Node) {
	for n.place > 0 {
		parent := h[(n.place-1)/2]
		if !h.less(n, parent) {
			return
		}
		h.swap(n, parent)
	}
}

func (h passHeap) down(n *Node) {
	for {
		c := 2*n.place + 1
		if c >= len(h) {
			return
		}
		child := h[c]
		if c+1 < len(h) && h.less(h[c+1], child) {
			child = h[c+1]
		}
		if !h.less(child, n) {
			return
		}
		h.swap(n, child)
	}
}

func (h passHeap) swap(a, b *Node) {
	h[a.place], h[b.place] = b, a
	a.place, b.place = b.place, a.place
}
