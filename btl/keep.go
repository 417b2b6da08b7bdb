package btl

import (
	"fmt"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
)

// A handler may keep a received fragment without a copy. A fragment of one packet is kept in its
// receive buffer, and a spare buffer is posted in place of that buffer. A large fragment is kept
// in its reassembly memory, which is no longer counted towards Config.ReassemblyBytesMax. If
// no spare buffer or no memory is left (Config.KeptPackets), the fragment is copied, so
// that kept fragments do not hinder the reception of others.
//
//	packet buffer:   posted --> arrived --Keep--> kept --Release, the last--> spare --> posted
//	memory of large: under way --> whole --Keep--> kept --Release--> idle, or let go

// Kept holds data that a handler has kept. The zero value can be used with Module.Keep. After
// Release, the Kept can be used again, and reuses its memory for copies.
type Kept struct {
	m    *Module
	data []byte
	own  []byte        // memory for a copy
	msg  *frag.Message // the message whose memory has data
	buf  fabric.Buf    // the receive buffer that has data
	in   keptIn
}

// keptIn is the kind of memory that holds the data of a Kept.
type keptIn uint8

const (
	keptNowhere keptIn = iota
	keptCopy
	keptPacket
	keptMessage
)

// keeping is the state of large fragments that handlers have kept. The kept packets are managed by
// the port.
type keeping struct {
	bytes int64         // memory of the kept large fragments
	msg   *frag.Message // the large fragment that is being delivered

	arrivals // messages that wait for PullArrivals
}

// Keep stores data in k until k.Release. The argument data of Keep is all or a part of the
// data of the handler that calls Keep. k.Bytes does not change until k.Release. Keep does
// not copy data while at most Config.KeptPackets packets, and at most as many MiB of
// fragments of several packets, are kept. Beyond these limits, or if data is not the
// handler's data, Keep copies data to memory of k, which is reused. Keep returns ErrState if
// k already holds data.
func (m *Module) Keep(k *Kept, data []byte) error {
	if k.in != keptNowhere {
		return fmt.Errorf("%w: something is kept there", ErrState)
	}
	k.m = m
	switch {
	case k.takePacket(data):
		k.in = keptPacket
		m.stats.counters[CntKeptPackets]++
	case m.keepMessage(k, data):
		k.in = keptMessage
		m.stats.counters[CntKeptMessages]++
	default:
		k.own = append(k.own[:0], data...)
		k.in, data = keptCopy, k.own
		m.stats.counters[CntKeptCopies]++
	}
	k.data = data[:len(data):len(data)]
	return nil
}

// Bytes is the kept data. Any goroutine may read and write Bytes until Release, even during and
// after Module.Close.
func (k *Kept) Bytes() []byte { return k.data }

// Release returns the kept memory to the module, and further calls do nothing. Before Module.Close
// has returned, only the goroutine that owns the module may call Release. After Module.Close, any
// goroutine may call Release, but only one for each Kept.
func (k *Kept) Release() {
	switch m := k.m; {
	case k.in == keptPacket && m.closed:
		m.port.Arena.Drop()
	case k.in == keptPacket:
		m.port.Keeper.LetGo(k.buf)
	case k.in == keptMessage && !m.closed:
		m.keeping.bytes -= k.msg.CapBytes()
		k.msg.Return()
	}
	*k = Kept{own: k.own}
}

// takePacket keeps the receive buffer of the packet that is being delivered, if the buffer contains
// data and a spare buffer is left.
func (k *Kept) takePacket(data []byte) (ok bool) {
	k.buf, ok = k.m.port.Keeper.Keep(data)
	return ok
}

// copyOut copies the messages in the queue for PullArrivals out of their receive buffers, because
// the module closes.
func (q *arrivals) copyOut(kept *port.Keeper) {
	waiting := q.waiting.All()
	for i := range waiting {
		if a := &waiting[i].Kept; a.in == keptPacket {
			kept.LetGo(a.buf)
			a.own = append(a.own[:0], a.data...)
			a.in, a.data = keptCopy, a.own
		}
	}
}

// keepMessage keeps the memory of the large fragment that is being delivered, if the memory
// contains data and limits.KeptBytesMax allows it.
func (m *Module) keepMessage(k *Kept, data []byte) bool {
	h := &m.keeping
	msg := h.msg
	if msg == nil || h.bytes+msg.CapBytes() > m.cfg.limits.KeptBytesMax ||
		!port.Within(data, msg.Bytes) {
		return false
	}
	msg.Keep()
	h.bytes += msg.CapBytes()
	k.msg, h.msg = msg, nil
	return true
}
