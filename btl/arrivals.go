package btl

import "fmt"

// Arrival is a message that the module's owner has pulled.
type Arrival struct {
	Endpoint *Endpoint
	Tag      Tag
	Kept     // the message: Bytes, until Release or the next PullArrivals with this place
}

// arrivals are the messages that wait to be pulled, the oldest first.
type arrivals struct {
	waiting fifo[Arrival]
	copied  int64    // bytes of those that are copies
	full    bool     // so many wait that nothing is taken in
	own     [][]byte // memory for copies, of what was released
}

// arrivalsOwnMax bounds the memory for copies that is kept, in pieces of up to ownBytesMax.
const arrivalsOwnMax = 64

// HandlePulled queues the messages of a tag for PullArrivals, instead of calling a handler; Handle
// ends that. Messages are kept as by Keep: without a copy up to Config.KeptPackets packets and
// KeptBytesMax bytes, then copied. While Config.ArrivalsMax messages, or ArrivalsBytesMax bytes of
// copies, are queued, Progress does nothing and Deadline is Never. Packets of peers are then not
// read; credits and the peers' own bounds stop them. So a caller that waits for any event must
// pull. Error: ErrTag.
func (m *Module) HandlePulled(tag Tag) error { return m.Handle(tag, m.arrive) }

// arrive is the handler of each tag whose messages are pulled.
func (m *Module) arrive(ep *Endpoint, tag Tag, data []byte) {
	q := &m.keeping.arrivals
	a := Arrival{Endpoint: ep, Tag: tag}
	if n := len(q.own); n > 0 {
		a.own, q.own = q.own[n-1], q.own[:n-1]
	}
	_ = m.Keep(&a.Kept, data) // It holds nothing yet.
	if a.in == keptCopy {
		q.copied += int64(len(data))
	}
	q.waiting.push(a)
	m.boundArrivals()
}

// boundArrivals notes whether the queue of messages to be pulled is full, so that polling stops.
func (m *Module) boundArrivals() {
	q := &m.keeping.arrivals
	q.full = q.waiting.len() >= m.cfg.ArrivalsMax || q.copied >= m.cfg.ArrivalsBytesMax
}

// PullArrivals releases the messages in buf and refills it with queued ones of HandlePulled tags,
// in the order in which handlers would have been called. It returns their number; if that is below
// len(buf) the queue is empty. So a loop calls Progress, then PullArrivals with the same buf until
// it is empty. The module's owner may call it at any time, also from a handler and after Close.
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
		a, ok := q.waiting.pop()
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

// check verifies the queue of messages to be pulled.
func (q *arrivals) check(m *Module) error {
	copied := int64(0)
	for _, a := range q.waiting.all() {
		if a.in == keptCopy {
			copied += int64(len(a.data))
		}
	}
	full := q.waiting.len() >= m.cfg.ArrivalsMax || copied >= m.cfg.ArrivalsBytesMax
	if copied != q.copied || full != q.full {
		return fmt.Errorf("%d messages wait to be pulled, copies of %d bytes, %d counted; full: %v",
			q.waiting.len(), copied, q.copied, q.full)
	}
	return nil
}
