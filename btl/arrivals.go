package btl

import (
	"fmt"

	"gobtl/internal/fifo"
)

// Arrival is a received message that PullArrivals has returned.
type Arrival struct {
	Endpoint *Endpoint
	Tag      Tag
	Kept     // the message; valid until Release or the next PullArrivals into this element
}

// arrivals is the queue of received messages that wait for PullArrivals, the oldest first.
type arrivals struct {
	waiting fifo.List[Arrival]
	copied  int64         // bytes of the messages that are copies
	full    bool          // the queue has reached a bound, so polling stops
	own     [][]byte      // memory of released copies, for reuse
	bounds  arrivalBounds // set by Open
}

// arrivalBounds holds the number of messages, and of bytes of copied messages, at which the queue
// for PullArrivals is full.
type arrivalBounds struct {
	messages    int
	copiedBytes int64
}

var arrivalsMax = arrivalBounds{messages: 1 << 16, copiedBytes: 256 << 20}

// arrivalsOwnMax is the maximum number of released buffers that are kept for later copies, each of
// up to ownBytesMax bytes.
const arrivalsOwnMax = 64

// HandlePulled queues the messages of a tag for PullArrivals, instead of calling a handler.
// A call of Handle after HandlePulled, for the same tag, replaces the queueing by a
// handler. Up to Config.KeptPackets packets and as many MiB are queued without a
// copy, and further messages are copied. While 65536 messages, or 256 MiB of copies, are
// queued, Progress does nothing and Deadline returns Never. While the queue is full,
// packets of peers are not read, and the peers stop sending when they have no more credits.
// A caller that waits for any event of a module with HandlePulled must call PullArrivals.
// HandlePulled returns ErrTag if the tag is out of range.
func (m *Module) HandlePulled(tag Tag) error { return m.Handle(tag, m.arrive) }

// arrive is the handler of each tag of HandlePulled.
func (m *Module) arrive(ep *Endpoint, tag Tag, data []byte) {
	q := &m.keeping.arrivals
	a := Arrival{Endpoint: ep, Tag: tag}
	if n := len(q.own); n > 0 {
		a.own, q.own = q.own[n-1], q.own[:n-1]
	}
	_ = m.Keep(&a.Kept, data) // no error: a is empty
	if a.in == keptCopy {
		q.copied += int64(len(data))
	}
	q.waiting.Push(a)
	m.boundArrivals()
}

// reached reports whether the queue, with copiedBytes bytes of copies, has reached one of its
// limits.
func (q *arrivals) reached(copiedBytes int64) bool {
	return q.waiting.Len() >= q.bounds.messages || copiedBytes >= q.bounds.copiedBytes
}

// boundArrivals records whether the queue for PullArrivals is full, in which case Progress does not
// poll.
func (m *Module) boundArrivals() {
	q := &m.keeping.arrivals
	q.full = q.reached(q.copied)
}

// PullArrivals releases the messages in buf and fills buf with messages of the queue of
// HandlePulled. PullArrivals returns the messages in the order in which handlers would have
// been called. PullArrivals returns the number of messages. If the result of PullArrivals
// is below len(buf), the queue is empty. A program with PullArrivals typically calls
// Progress once and PullArrivals until the queue is empty, in a loop. PullArrivals may be
// called from a handler, and after Close.
func (m *Module) PullArrivals(buf []Arrival) int {
	q := &m.keeping.arrivals
	for i := range buf {
		k := &buf[i].Kept
		k.Release()
		if n := cap(k.own); n > 0 && n <= ownBytesMax && len(q.own) < arrivalsOwnMax {
			q.own = append(q.own, k.own)
		}
		buf[i] = Arrival{}
	}
	n := 0
	for ; n < len(buf); n++ {
		a, ok := q.waiting.Pop()
		if !ok {
			break
		}
		if a.in == keptCopy {
			q.copied -= int64(len(a.data))
		}
		buf[n] = a
	}
	m.boundArrivals()
	return n
}

func (q *arrivals) check() error {
	copied := int64(0)
	for _, a := range q.waiting.All() {
		if a.in == keptCopy {
			copied += int64(len(a.data))
		}
	}
	full := q.reached(copied)
	if copied != q.copied || full != q.full {
		return fmt.Errorf("%d messages wait to be pulled, copies of %d bytes, %d counted; full: %v",
			q.waiting.Len(), copied, q.copied, q.full)
	}
	return nil
}
