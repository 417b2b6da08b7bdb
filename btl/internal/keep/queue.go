package keep

import (
	"fmt"

	"gobtl/internal/fifo"
)

// Queue contains the received messages that wait until the program pulls them, the oldest first. E
// is the type of endpoints.
type Queue[E any] struct {
	store   *Store
	waiting fifo.List[Item[E]]
	copied  int64    // bytes of the messages that are copies
	full    bool     // the queue has reached a bound
	own     [][]byte // memory of released copies, for reuse
	bounds  Bounds
	// perPacket is the largest number of messages that one packet can contain, or 0 if the program
	// does not use the queue.
	perPacket int
}

// Item is a message in a Queue.
type Item[E any] struct {
	From E
	Tag  uint8
	Data
}

// Bounds contains the two limits of a Queue, which are its number of messages and the total size of
// its copied messages. A Queue is full when it has reached one of the limits.
type Bounds struct {
	Messages    int
	CopiedBytes int64
}

// BoundsMax returns the limits of the Queue of every module. Only tests use different limits.
func BoundsMax() Bounds { return Bounds{Messages: 1 << 16, CopiedBytes: 256 << 20} }

const (
	// ownMax is the maximum number of released copy buffers that are kept for reuse.
	ownMax = 64
	// ownBytesMax is the maximum size in bytes of a released copy buffer that is kept for reuse.
	ownBytesMax = 256 << 10
)

// Init makes the Queue q empty, and sets its limits to the Bounds b. The messages of the queue are
// kept in the Store s.
func (q *Queue[E]) Init(s *Store, b Bounds) { q.store, q.bounds = s, b }

// Len returns the number of messages in the queue.
func (q *Queue[E]) Len() int { return q.waiting.Len() }

// Full reports whether the queue has reached one of its limits.
func (q *Queue[E]) Full() bool { return q.full }

// Expect announces that messages will be queued, and that one packet contains at most perPacket
// messages.
func (q *Queue[E]) Expect(perPacket int) { q.perPacket = perPacket }

// Packets returns the number of packets, from 1 to the argument "limit", that the module may
// receive in its next poll. If a poll receives no more packets than Packets returns, the number of
// queued messages exceeds its limit by at most the number of messages in one packet.
func (q *Queue[E]) Packets(limit int) int {
	if q.perPacket == 0 {
		return limit
	}
	return max(min(limit, (q.bounds.Messages-q.waiting.Len())/q.perPacket), 1)
}

// Push keeps the data of a message that is being delivered, and appends the message to the queue.
// The result of Push is the kind of memory in which the data is kept.
func (q *Queue[E]) Push(from E, tag uint8, data []byte) Place {
	it := Item[E]{From: from, Tag: tag}
	if n := len(q.own); n > 0 {
		it.own, q.own = q.own[n-1], q.own[:n-1]
	}
	place := q.store.Keep(&it.Data, data)
	if place == Copy {
		q.copied += int64(len(data))
	}
	q.waiting.Push(it)
	q.full = q.reached(q.copied)
	return place
}

// Pop removes and returns the oldest message of the queue. The result "ok" of Pop says whether the
// queue contained a message.
func (q *Queue[E]) Pop() (it Item[E], ok bool) {
	if it, ok = q.waiting.Pop(); ok && it.place == Copy {
		q.copied -= int64(len(it.data))
	}
	q.full = q.reached(q.copied)
	return it, ok
}

// Recycle releases the data of a message that Pop has returned. If the data was a copy, Recycle can
// keep the memory of the copy for reuse.
func (q *Queue[E]) Recycle(d *Data) {
	d.Release()
	if n := cap(d.own); n > 0 && n <= ownBytesMax && len(q.own) < ownMax {
		q.own = append(q.own, d.own)
	}
	*d = Data{}
}

// CopyOut copies those messages in the queue that are in receive buffers to memory outside of the
// receive buffers. The caller must call CopyOut before Store.Close.
func (q *Queue[E]) CopyOut() {
	all := q.waiting.All()
	for i := range all {
		all[i].copyOut()
	}
}

// The method "reached" reports whether the queue has reached one of its limits. The argument
// "copied" of the method "reached" is the total size, in bytes, of those messages in the queue that
// are copies.
func (q *Queue[E]) reached(copied int64) bool {
	return q.waiting.Len() >= q.bounds.Messages || copied >= q.bounds.CopiedBytes
}

// Check returns an error if the queue is inconsistent.
func (q *Queue[E]) Check() error {
	copied := int64(0)
	for _, it := range q.waiting.All() {
		if it.place == Copy {
			copied += int64(len(it.data))
		}
	}
	full := q.reached(copied)
	if copied != q.copied || full != q.full {
		return fmt.Errorf("%d messages wait to be pulled, copies of %d bytes, %d counted; full: %v",
			q.waiting.Len(), copied, q.copied, q.full)
	}
	return nil
}
