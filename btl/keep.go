package btl

import (
	"fmt"
	"unsafe"

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

// keeping is the memory that handlers have kept, and the packet or message being delivered.
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

// openKeeping makes the last receive buffers of the arena the spare buffers.
func (m *Module) openKeeping(first fabric.Buf, receives, spare int) {
	k := &m.keeping
	k.refs = make([]uint32, receives+spare)
	k.spare = make([]fabric.Buf, 0, spare)
	for i := range spare {
		k.spare = append(k.spare, first+fabric.Buf(receives+i))
	}
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
		m.keeping.letGo(k.buf, m.port.FirstReceive())
	case k.in == keptMessage && !m.closed:
		m.keeping.bytes -= k.msg.CapBytes()
		k.msg.Return()
	}
	*k = Kept{own: k.own}
}

// outlive keeps the arena of a closing module for each Kept in it. Messages that wait to be pulled
// are copied instead, for they may never be pulled.
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

// letGo drops a buffer's reference from a Kept. Without references the buffer is spare again; or,
// if its packet is still being delivered, it will be reposted and its replacement is spare.
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

// keepPacket keeps the buffer of the packet that is being received, if data lies in that buffer.
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

// keepMessage keeps the memory of the large fragment that is being delivered, if data lies in it.
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

// hold notes the buffer of a packet that is being received, whose data may be kept.
func (k *keeping) hold(b fabric.Buf) {
	k.inHand, k.hasBuf, k.isKept = b, true, false
}

// held is the buffer that is to be posted again, when the packet has been received.
func (k *keeping) held() fabric.Buf {
	k.hasBuf = false
	return k.inHand
}

// check verifies the state of kept buffers.
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
