package btl

import "fmt"

// Arrival is a message that an owner has pulled.
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

// HandlePulled has the messages of a tag wait for PullArrivals, instead of calling a handler of it;
// Handle ends that. Each is kept as by Keep: up to Config.KeptPackets packets and KeptBytesMax
// bytes nothing is copied, more are copies. While Config.ArrivalsMax messages wait, or copies of
// ArrivalsBytesMax bytes, Progress does nothing, and Deadline is Never, as if it were not called:
// peers are not heard, and what they send waits where credits and their own bounds stop it. So who
// waits for anything must pull. Error: ErrTag.
func (m *Module) HandlePulled(tag Tag) error { return m.Handle(tag, m.arrive) }

// arrive is the handler of a tag that is pulled.
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

// boundArrivals notes whether so much waits to be pulled that nothing more is taken in.
func (m *Module) boundArrivals() {
	q := &m.keeping.arrivals
	q.full = q.waiting.len() >= m.cfg.ArrivalsMax || q.copied >= m.cfg.ArrivalsBytesMax
}

// PullArrivals releases what buf holds and fills it with the messages of HandlePulled, in the order
// in which handlers would have been called. It returns how many there are; fewer than len(buf)
// means that no more wait. So a loop calls Progress, and this with the same buf until none are
// left. It may be called at any time by the module's owner, also by a handler and after Close.
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

// check looks at what waits to be pulled.
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
