package btl

import (
	"fmt"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
)

// A handler may keep a received fragment without a copy. A fragment of one packet is kept in its
// receive buffer, and a spare buffer is posted in its place. A large fragment is kept in its
// reassembly memory, which then no longer counts against the reassembly budget. So kept fragments
// take no resources from receiving: when the spare buffers, or the budget of kept bytes, are used
// up, the fragment is copied.
//
//	packet buffer:   posted --> arrived --Keep--> kept --Release, the last--> spare --> posted
//	memory of large: under way --> whole --Keep--> kept --Release--> idle, or let go

// Kept is what a handler has kept. The zero value is ready for Module.Keep, and so is a Kept after
// Release, which retains memory for copies.
type Kept struct {
	m    *Module
	data []byte
	own  []byte        // memory for a copy
	msg  *frag.Message // in whose memory data is
	buf  fabric.Buf    // or in which buffer, of a packet
	in   keptIn
}

// keptIn is the kind of memory that holds kept bytes.
type keptIn uint8

const (
	keptNowhere keptIn = iota
	keptCopy
	keptPacket
	keptMessage
)

// keeping is the memory of large fragments that handlers have kept, and the one being delivered.
// The port has the kept packets.
type keeping struct {
	bytes int64         // of large fragments that are kept
	msg   *frag.Message // the large fragment that is being delivered

	arrivals // that wait to be pulled
}

// Keep keeps data, all or part of the calling handler's data, in the caller's k until k.Release;
// k.Bytes does not change until then. Data is not copied while at most Config.KeptPackets packets
// and KeptBytesMax bytes of larger fragments are kept. Beyond that, or if data is not the
// handler's, it is copied, into memory of k that is reused. Errors: ErrState if k holds data
// already.
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

// Bytes is the kept data. Any goroutine may read and write it until Release, also during and after
// the module's Close: the fabric's memory of kept packets stays mapped.
func (k *Kept) Bytes() []byte { return k.data }

// Release gives the kept memory back; further calls do nothing. Only the goroutine that owns the
// module may call it, until Module.Close has returned; then any may, each for its own Kept.
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

// takePacket keeps the buffer of the packet that is being received, if data lies in that buffer.
func (k *Kept) takePacket(data []byte) (ok bool) {
	k.buf, ok = k.m.port.Keeper.Keep(data)
	return ok
}

// copyOut copies the messages that wait to be pulled, for the module closes and they may never be.
func (q *arrivals) copyOut(kept *port.Keeper) {
	waiting := q.waiting.all()
	for i := range waiting {
		if a := &waiting[i].Kept; a.in == keptPacket {
			kept.LetGo(a.buf)
			a.own = append(a.own[:0], a.data...)
			a.in, a.data = keptCopy, a.own
		}
	}
}

// keepMessage keeps the memory of the large fragment that is being delivered, if data lies in it.
func (m *Module) keepMessage(k *Kept, data []byte) bool {
	h := &m.keeping
	msg := h.msg
	if msg == nil || h.bytes+msg.CapBytes() > m.cfg.KeptBytesMax ||
		!port.Within(data, msg.Bytes) {
		return false
	}
	msg.Keep()
	h.bytes += msg.CapBytes()
	k.msg, h.msg = msg, nil
	return true
}
