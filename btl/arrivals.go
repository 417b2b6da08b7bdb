package btl

// Arrival is a message that an owner has pulled.
type Arrival struct {
	Endpoint *Endpoint
	Tag      Tag
	Kept     // the message: Bytes, until Release or the next PullArrivals with this place
}

// arrivals are the messages that wait to be pulled, the oldest first.
type arrivals struct {
	waiting fifo[Arrival]
	own     [][]byte // memory for copies, of what was released
}

// arrivalsOwnMax bounds the memory for copies that is kept, in pieces of up to ownBytesMax.
const arrivalsOwnMax = 64

// HandlePulled has the messages of a tag wait for PullArrivals, instead of calling a handler of it;
// Handle ends that. Each is kept as by Keep: up to Config.KeptPackets packets and KeptBytesMax
// bytes nothing is copied. More are copies: who makes passes and does not pull lets them become
// ever more. Error: ErrTag.
func (m *Module) HandlePulled(tag Tag) error { return m.Handle(tag, m.arrive) }

// arrive is the handler of a tag that is pulled.
func (m *Module) arrive(ep *Endpoint, tag Tag, data []byte) {
	q := &m.keeping.arrivals
	a := Arrival{Endpoint: ep, Tag: tag}
	if n := len(q.own); n > 0 {
		a.own, q.own = q.own[n-1], q.own[:n-1]
	}
	_ = m.Keep(&a.Kept, data) // It holds nothing yet.
	q.waiting.push(a)
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
	for i := range buf {
		a, ok := q.waiting.pop()
		if !ok {
			return i
		}
		buf[i] = a
	}
	return len(buf)
}
