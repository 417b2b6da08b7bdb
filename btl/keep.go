package btl

import (
	"fmt"
	"unsafe"

	"gobtl/fabric"
	"gobtl/frag"
)

// What arrives may stay where it is. A handler that keeps a fragment of one packet takes the packet
// buffer that it came in, for which another one, of a few that are spare, is posted; a large one is
// kept with the memory in which it was put together, which leaves the budget of those to come. So
// whoever keeps takes nothing from anybody: where spare buffers, or the bytes that may be kept, are
// used up, the fragment is copied.
//
//	packet buffer:   posted --> arrived --Keep--> kept --Release, the last--> spare --> posted
//	memory of large: under way --> whole --Keep--> kept --Release--> idle, or let go

// Kept is what a handler has kept. The zero value is ready for Module.Keep; after Release it is
// again, with the memory of an earlier copy.
type Kept struct {
	m    *Module
	data []byte
	own  []byte        // memory for a copy
	msg  *frag.Message // in whose memory data is
	buf  fabric.Buf    // or in which buffer, of a packet
	in   keptIn
}

// keptIn says where kept bytes are.
type keptIn uint8

const (
	keptNowhere keptIn = iota
	keptCopy
	keptPacket
	keptMessage
)

// keeping is the memory that handlers have kept, and what is in their hands now.
type keeping struct {
	spare   []fabric.Buf // receive buffers that are neither posted nor kept
	refs    []uint32     // of each receive buffer, the Kepts of its bytes
	packets int          // buffers that are kept
	bytes   int64        // of large fragments that are kept

	inHand fabric.Buf    // of the packet that is being received: to be posted again
	taken  fabric.Buf    // in whose place it is, once that is kept
	hasBuf bool          // there is one
	isKept bool          // taken is one
	msg    *frag.Message // the large fragment that is being delivered

	arrivals // that wait to be pulled
}

// openKeeping makes the last receive buffers of the arena spare ones.
func (m *Module) openKeeping(first fabric.Buf, receives, spare int) {
	k := &m.keeping
	k.refs = make([]uint32, receives+spare)
	k.spare = make([]fabric.Buf, 0, spare)
	for i := range spare {
		k.spare = append(k.spare, first+fabric.Buf(receives+i))
	}
}

// Keep keeps data, all or a part of what the handler that calls it was given, in k, which is the
// caller's, until k.Release: k.Bytes stays as it is. Nothing is copied while no more than
// Config.KeptPackets packets and KeptBytesMax bytes of larger fragments are kept; then, and if
// data is nothing of the handler's, it is. Memory for copies is of k, and used again. k must not
// hold anything: ErrState.
func (m *Module) Keep(k *Kept, data []byte) error {
	if k.in != keptNowhere {
		return fmt.Errorf("%w: something is kept there", ErrState)
	}
	k.m = m
	switch {
	case m.keepPacket(k, data):
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

// Bytes is what is kept. It may be read and written until Release, by any goroutine, also while the
// module closes and afterwards: of packets that are kept the fabric's memory stays.
func (k *Kept) Bytes() []byte { return k.data }

// Release gives back what is kept; further calls do nothing. It belongs to the module's owner's
// goroutine, until Module.Close has returned: then any may call it, each for its own Kept.
func (k *Kept) Release() {
	switch m := k.m; {
	case k.in == keptPacket && m.closed:
		m.port.Arena.Drop()
	case k.in == keptPacket:
		m.keeping.letGo(k.buf, m.port.FirstReceive())
	case k.in == keptMessage && !m.closed:
		m.keeping.bytes -= k.msg.CapBytes()
		k.msg.Return()
	}
	*k = Kept{own: k.own}
}

// outlive holds the arena for every Kept that is in there, of a module that closes. What waits to
// be pulled is copied instead: perhaps nobody pulls any more.
func (k *keeping) outlive(arena *fabric.Arena, first fabric.Buf) {
	waiting := k.arrivals.waiting.all()
	for i := range waiting {
		if a := &waiting[i].Kept; a.in == keptPacket {
			k.letGo(a.buf, first)
			a.own = append(a.own[:0], a.data...)
			a.in, a.data = keptCopy, a.own
		}
	}
	for _, n := range k.refs {
		for range n {
			arena.Hold()
		}
	}
}

// letGo takes a Kept of a buffer away. With the last one it is spare again; or, if a handler is
// still at its packet, it is in hand again, and what was to be posted in its place is spare.
func (k *keeping) letGo(b, first fabric.Buf) {
	r := &k.refs[b-first]
	if *r--; *r > 0 {
		return
	}
	k.packets--
	if k.hasBuf && k.isKept && k.taken == b {
		b, k.inHand, k.isKept = k.inHand, b, false
	}
	k.spare = append(k.spare, b)
}

// keepPacket keeps the buffer of the packet that is being received, if data is in there.
func (m *Module) keepPacket(k *Kept, data []byte) bool {
	h := &m.keeping
	if !h.hasBuf {
		return false
	}
	if h.isKept && within(data, m.port.Arena.Bytes(h.taken)) {
		k.buf = h.taken // another record of a pack
	} else {
		n := len(h.spare)
		if n == 0 || h.isKept || !within(data, m.port.Arena.Bytes(h.inHand)) {
			return false
		}
		h.taken, h.inHand, h.isKept = h.inHand, h.spare[n-1], true
		h.spare = h.spare[:n-1]
		h.packets++
		k.buf = h.taken
	}
	h.refs[k.buf-m.port.FirstReceive()]++
	return true
}

// keepMessage keeps the memory of the large fragment that is being delivered, if data is in there.
func (m *Module) keepMessage(k *Kept, data []byte) bool {
	h := &m.keeping
	msg := h.msg
	if msg == nil || h.bytes+msg.CapBytes() > m.cfg.KeptBytesMax ||
		!within(data, msg.Bytes) {
		return false
	}
	msg.Keep()
	h.bytes += msg.CapBytes()
	k.msg, h.msg = msg, nil
	return true
}

// within says whether part is some of whole's memory.
func within(part, whole []byte) bool {
	if len(part) == 0 || len(whole) == 0 {
		return false
	}
	lo, from := address(part), address(whole)
	return lo >= from && lo+uintptr(len(part)) <= from+uintptr(len(whole))
}

func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

// hold notes the buffer of a packet that is being received: what it brings may be kept.
func (k *keeping) hold(b fabric.Buf) {
	k.inHand, k.hasBuf, k.isKept = b, true, false
}

// held is the buffer that is to be posted again, when the packet has been received.
func (k *keeping) held() fabric.Buf {
	k.hasBuf = false
	return k.inHand
}

// check looks at what is kept.
func (k *keeping) check(first fabric.Buf, c *checker) error {
	kept := 0
	for _, n := range k.refs {
		if n > 0 {
			kept++
		}
	}
	if kept != k.packets || kept+len(k.spare) != cap(k.spare) || k.bytes < 0 || k.hasBuf ||
		k.msg != nil {
		return fmt.Errorf("%d packets kept, %d counted, %d of %d spare; %d bytes kept", kept, k.packets,
			len(k.spare), cap(k.spare), k.bytes)
	}
	for i, b := range k.spare {
		if b < first || int(b-first) >= len(k.refs) || k.refs[b-first] != 0 || c.seen[b] {
			return fmt.Errorf("spare receive buffer %d is %d, and that is in use", i, b)
		}
		c.seen[b] = true
	}
	for _, b := range k.spare {
		c.seen[b] = false
	}
	return nil
}
