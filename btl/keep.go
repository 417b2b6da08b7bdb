package btl

import (
	"fmt"

	"gobtl/btl/internal/keep"
	"gobtl/btl/internal/peer"
)

// Kept holds data that a handler has kept. The zero value of Kept can be used with Module.Keep.
// After Release, a Kept can be used again, and reuses its memory for copies.
type Kept struct {
	in keep.Data
}

// keptCounters are the counters of kept data, indexed by the place where the data is stored.
var keptCounters = [...]Counter{
	keep.Copy: CntKeptCopies, keep.Packet: CntKeptPackets, keep.Message: CntKeptMessages,
}

// Keep stores data in k until k.Release. The argument "data" of Keep is the message that was given
// to the calling handler, or a part of this message. The result of k.Bytes does not change until
// k.Release. Keep does not copy a message of one packet while fewer than Config.KeptPackets packets
// are kept. Keep does not copy a message of several packets while at most Config.KeptPackets MiB of
// such messages are kept. If KeptPackets is reached, or data does not belong to the handler's
// message, Keep copies data to memory of k, which later copies reuse. Keep returns ErrState if k
// already holds data.
func (m *Module) Keep(k *Kept, data []byte) error {
	if k.in.Place() != keep.Nowhere {
		return fmt.Errorf("%w: something is kept there", ErrState)
	}
	m.counters[keptCounters[m.rx.Keeping.Keep(&k.in, data)]]++
	return nil
}

// Bytes returns the kept data. Any goroutine may read and write the kept data until Release, even
// during and after Module.Close.
func (k *Kept) Bytes() []byte { return k.in.Bytes() }

// Release returns the kept memory to the module. Further calls of Release do nothing. Before
// Module.Close has returned, only the goroutine that owns the module may call Release. After
// Module.Close, any goroutine may call Release, but two goroutines must not call Release of the
// same Kept at the same time.
func (k *Kept) Release() { k.in.Release() }

// Arrival is a received message that PullArrivals has returned.
type Arrival struct {
	Endpoint *Endpoint
	Tag      Tag
	Kept     // the message; valid until Release or the next PullArrivals into this element
}

// HandlePulled makes the module queue the messages of a tag for PullArrivals, instead of calling a
// handler. A later call of Handle for the same tag replaces the queueing by a handler. The module
// queues at most Config.KeptPackets packets, and at most Config.KeptPackets MiB of larger
// fragments, without a copy, and copies all other queued messages. While 65536 messages, or 256 MiB
// of copies, are queued, Progress does nothing and Deadline returns Never. While the queue for
// PullArrivals is full, the module reads no packets, so peers stop sending when their credits are
// used up. A program that uses HandlePulled must call PullArrivals even while it waits for an event
// that is not a message. HandlePulled returns ErrTag if the tag is out of range.
func (m *Module) HandlePulled(tag Tag) error {
	if err := m.Handle(tag, nil); err != nil {
		return err
	}
	m.rx.SetPulled(uint8(tag), m.arrive)
	return nil
}

// The method "arrive" is the handler of all tags that were given to HandlePulled.
func (m *Module) arrive(ep *peer.Endpoint, tag uint8, data []byte) {
	m.counters[keptCounters[m.rx.Arrivals.Push(ep, tag, data)]]++
}

// PullArrivals releases the earlier messages in buf, and then fills buf with queued messages (see
// HandlePulled). PullArrivals returns the messages in the order in which handlers would have been
// called. The result of PullArrivals is the number of messages in buf. If the result of
// PullArrivals is less than len(buf), the queue is empty. A program with PullArrivals typically
// loops, and in each round calls Progress once, and then PullArrivals until the queue is empty.
// PullArrivals may be called in a handler, and after Close.
func (m *Module) PullArrivals(buf []Arrival) int {
	for i := range buf {
		m.rx.Arrivals.Recycle(&buf[i].in)
		buf[i] = Arrival{}
	}
	for n := range buf {
		a, ok := m.rx.Arrivals.Pop()
		if !ok {
			return n
		}
		buf[n] = Arrival{Endpoint: endpointOf(a.From), Tag: Tag(a.Tag), Kept: Kept{a.Data}}
	}
	return len(buf)
}
