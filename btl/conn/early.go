package conn

import "slices"

// Bytes are early if they arrive while earlier bytes of the stream are missing. An early message is
// stored in the ring buffer if it fits into the present ring buffer, or into a ring buffer of at
// most twice as many bytes as the peer has sent so far. Any other early message is copied, and the
// copy moves to the ring buffer when no byte before it is missing any more. Because of the copies,
// a peer that sends one byte at the end of its window does not cause the allocation of a ring
// buffer of the size of the window.
//
//	|<--------- ring ---------->|           copies        copies
//	|=== unread ====|  gap  |===|    gap    |==|=|  gap   |=|==|
//	read            next    early[0]        early[1]      early[2]
//
// The ring buffer and the copies of a Conn together have at most as many bytes as the window, and
// when the copies would exceed this bound, a ring buffer of the size of the window replaces them
// (see the method "enlarge"). The size of the ring buffer is at most the sum of ringBytesMin, four
// times the bytes that the peer has sent, and costOf of each early message. When half of the
// initial window has been received, no message is copied any more.

// messageBytes is the memory that a copied message needs in addition to its bytes, for an object of
// the type "message", for an element of incoming.early, and for rounding up by at most 16 bytes in
// the allocator.
const messageBytes = 128

// costOf returns the maximum memory for the copy of a message of the given size, which the
// allocator rounds up by at most a quarter and 16 bytes.
func costOf(sizeBytes int) int { return sizeBytes + sizeBytes/4 + messageBytes }

// A span is a range of early bytes, some of which can be in the ring buffer and the others in
// copies.
type span struct {
	from, to uint64
	copies   copyList
}

// The type "message" is the copy of an early message.
type message struct {
	at   uint64
	data []byte
	next *message
}

// The type "copyList" is a list of copied messages, in any order.
type copyList struct{ first, last *message }

// The method "join" adds another list to the list.
func (l *copyList) join(other copyList) {
	switch {
	case other.first == nil:
	case l.first == nil:
		*l = other
	default:
		l.last.next, l.last = other.first, other.last
	}
}

// onEarly stores early bytes and returns true, or returns false if addEarly refuses the bytes.
func (c *Conn) onEarly(at uint64, data []byte) bool {
	s := span{from: at, to: at + uint64(len(data))}
	cost := costOf(len(data))
	reach := max(uint64(len(c.ring)), ringBytesMin, 2*(c.next+c.ahead+uint64(len(data))))
	apart := s.to-c.read > reach && len(c.ring)+c.apart+cost <= int(c.window)
	if apart {
		m := &message{at: at, data: make([]byte, len(data))}
		copy(m.data, data)
		s.copies = copyList{m, m}
	}
	if !c.addEarly(s) {
		return false
	}
	c.ahead += uint64(len(data))
	if !apart {
		c.store(at, data)
		return true
	}
	c.apart += cost
	c.count(len(c.ring) + c.apart)
	return true
}

// addEarly records a range of early bytes, and reports whether the range is valid. A range is not
// valid if some of its bytes were received before, or if there are already earlyMax ranges after
// gaps.
func (c *Conn) addEarly(s span) bool {
	i, _ := slices.BinarySearchFunc(c.early, s.from, func(e span, from uint64) int {
		if e.to <= from {
			return -1
		}
		return 1
	})
	if i < len(c.early) && c.early[i].from < s.to {
		return false
	}
	begin, end := i, i // of the ranges that s joins
	if i > 0 && c.early[i-1].to == s.from {
		begin--
		s.from = c.early[begin].from
		s.copies.join(c.early[begin].copies)
	}
	if i < len(c.early) && c.early[i].from == s.to {
		end++
		s.to = c.early[i].to
		s.copies.join(c.early[i].copies)
	}
	if begin == end && len(c.early) >= earlyMax {
		return false
	}
	c.early = slices.Replace(c.early, begin, end, s)
	return true
}

// reachEarly adds the first range of early bytes to the bytes that were received without a gap.
func (c *Conn) reachEarly() {
	s := c.early[0]
	c.early = slices.Delete(c.early, 0, 1)
	c.next = s.to
	c.ahead -= s.to - s.from
	c.takeIn(s.copies)
}

// takeIn moves copied messages to the ring buffer.
func (c *Conn) takeIn(l copyList) {
	if l.first == nil {
		return
	}
	for m := l.first; m != nil; m = m.next {
		c.apart -= costOf(len(m.data))
		c.store(m.at, m.data)
	}
	c.count(len(c.ring) + c.apart)
}

// dropEarly drops all early bytes.
func (c *Conn) dropEarly() { c.early, c.ahead, c.apart = nil, 0, 0 }
