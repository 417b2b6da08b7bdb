package btl

import (
	"fmt"

	"gobtl/btl/internal/keep"
	"gobtl/btl/internal/peer"
)

// Kept holds data that a handler has kept. The zero value can be used with Module.Keep. After
// Release, the Kept can be used again, and reuses its memory for copies.
type Kept struct {
	in keep.Data
}

// keptCounters are the counters of kept data, indexed by the place where the data is stored.
var keptCounters = [...]Counter{
	keep.Copy: CntKeptCopies, keep.Packet: CntKeptPackets, keep.Message: CntKeptMessages,
}

// Keep stores data in k until k.Release. The argument "data" of Keep is the whole message of the
// handler that calls Keep, or a part of it. k.Bytes does not change until k.Release. Keep does not
// copy data while at most Config.KeptPackets packets, and at most Config.KeptPackets MiB of
// fragments that needed several packets, are kept. If Config.KeptPackets is exhausted, or if data
// does not belong to the handler's message, Keep copies data to memory of k, which later copies
// reuse. Keep returns ErrState if k already holds data.
func (m *Module) Keep(k *Kept, data []byte) error {
	if k.in.Place() != keep.Nowhere {
		return fmt.Errorf("%w: something is kept there", ErrState)
	}
	m.counters[keptCounters[m.rx.Keeping.Keep(&k.in, data)]]++
	return nil
}

// Bytes is the kept data. Any goroutine may read and write Bytes until Release, even during and
// after Module.Close.
func (k *Kept) Bytes() []byte { return k.in.Bytes() }

// Release returns the kept memory to the module, and further calls do nothing. Before Module.Close
// has returned, only the goroutine that owns the module may call Release. After Module.Close, any
// goroutine may call Release, but only one goroutine for each Kept.
func (k *Kept) Release() { k.in.Release() }

// Arrival is a received message that PullArrivals has returned.
type Arrival struct {
	Endpoint *Endpoint
	Tag      Tag
	Kept     // the message; valid until Release or the next PullArrivals into this element
}

// HandlePulled queues the messages of a tag for PullArrivals, instead of calling a handler. A call
// of Handle after HandlePulled, for the same tag, replaces the queueing by a handler. Up to
// Config.KeptPackets packets, and up to Config.KeptPackets MiB of larger fragments, are queued
// without a copy, and further messages are copied. While 65536 messages, or 256 MiB of copies, are
// queued, Progress does nothing and Deadline returns Never. While the queue is full, packets of
// peers are not read, and the peers stop sending when they have no more credits. If a program waits
// for any event of a module that uses HandlePulled, it must also call PullArrivals. HandlePulled
// returns ErrTag if the tag is out of range.
func (m *Module) HandlePulled(tag Tag) error {
	if err := m.Handle(tag, nil); err != nil {
		return err
	}
	m.rx.SetPulled(uint8(tag), m.arrive)
	return nil
}

// arrive is the handler of each tag of HandlePulled.
func (m *Module) arrive(ep *peer.Endpoint, tag uint8, data []byte) {
	m.counters[keptCounters[m.rx.Arrivals.Push(ep, tag, data)]]++
}

// PullArrivals releases the earlier messages in buf, and then fills buf with queued messages of the
// tags of HandlePulled. PullArrivals returns the messages in the order in which handlers would have
// been called. PullArrivals returns the number of messages. If the result of PullArrivals is below
// len(buf), the queue is empty. A program with PullArrivals typically loops, and in each round
// calls Progress once, and then PullArrivals until the queue is empty. PullArrivals may be called
// from a handler, and after Close.
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
