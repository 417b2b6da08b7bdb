package frag

// The code in this file decides how much memory a fragment gets, and when. A fragment that has
// begun has all its memory, or grows into a memory reserve that only one fragment uses at a time.

// emptyPart is the divisor that limits the allocated memory of one peer that no chunk has filled.
// The limit on the empty memory of one peer is a fixed part of the memory that other peers have
// not left empty, without the memory reserve.
const emptyPart = 16

// beginLeast is the least size of the first buffer of a fragment, in bytes, for a peer with too
// much empty memory.
const beginLeast = 8 << 10

// emptyBytes is the number of bytes of a fragment's buffer that no chunk has filled.
func (m *Message) emptyBytes() int64 {
	if m.starter {
		return 0
	}
	return m.capBytes() - m.arrivedBytes
}

// fill counts bytes of a fragment that have arrived.
func (a *Assembler) fill(m *Message, bytes int64) {
	before := m.emptyBytes()
	m.arrivedBytes += bytes
	a.addEmpty(m.emptyBytes() - before)
}

// addEmpty adds bytes to the count of allocated memory that no chunk of the peer has filled.
func (a *Assembler) addEmpty(bytes int64) {
	a.emptyBytes += bytes
	a.pool.emptyBytes += bytes
}

// hoards reports whether the peer has more empty allocated memory than is permitted. Without a
// limit on empty memory, a peer could take all memory with one packet for each of many fragments.
// If other peers have left half of the memory empty, every peer counts as over the limit on empty
// memory.
func (a *Assembler) hoards() bool {
	p := a.pool
	others := p.emptyBytes - a.emptyBytes
	share := (p.cfg.BytesMax - int64(p.cfg.FragBytesMax) - others) / emptyPart
	return others > share*emptyPart || a.emptyBytes > max(share, p.cfg.GrowBytes)
}

// beginClass returns the size class of the first buffer of a fragment whose first received chunk
// has n bytes.
func (a *Assembler) beginClass(sizeBytes uint32, n int) int {
	class := a.pool.beginClass(sizeBytes)
	if a.hoards() {
		class = min(class, classOf(uint32(max(n, beginLeast))))
	}
	return class
}

// begin begins a new fragment whose first received chunk has n bytes. The memory of the fragment
// leaving counts as free.
func (a *Assembler) begin(h *Header, n int, inOrder bool, leaving *Message) (*Message, error) {
	p := a.pool
	if h.SizeBytes > p.cfg.FragBytesMax {
		return nil, ErrTooLarge
	}
	slotBits := a.slotBits(h.FragID)
	if slotBits > tableSlotsMaxBits {
		return nil, ErrSlot
	}
	class := a.beginClass(h.SizeBytes, n)
	reserveBytes := a.reserveBytes(h.SizeBytes, class, inOrder, leaving)
	if a.activeBytes+p.capacity(class) > p.cfg.PeerBytesMax-reserveBytes {
		return nil, ErrBudget
	}
	m := p.get(h, class, p.cfg.BytesMax-reserveBytes)
	if m == nil {
		return nil, ErrBudget
	}
	p.favour(m)
	a.enter(m, h, slotBits)
	return m, nil
}

// reserveBytes returns the part of each memory limit that a new fragment of sizeBytes may not
// use, if the fragment begins with a buffer of the given size class. The memory of the fragment
// leaving counts as free.
func (a *Assembler) reserveBytes(
	sizeBytes uint32, class int, inOrder bool, leaving *Message,
) int64 {
	p := a.pool
	reserveBytes := int64(p.cfg.FragBytesMax)
	if inOrder {
		reserveBytes = 0
	}
	// A new fragment that must grow may not use the memory reserve while another fragment
	// (favourite) is the only one that may grow into the reserve.
	if class < classOf(sizeBytes) && p.favourite != nil && p.favourite != leaving {
		reserveBytes = int64(p.cfg.FragBytesMax)
	}
	if leaving != nil {
		reserveBytes -= leaving.capBytes()
	}
	return reserveBytes
}

// favour makes a new fragment the only one that may grow into the memory reserve. favour changes
// nothing unless the fragment has begun in the memory reserve and has to grow.
func (p *Pool) favour(m *Message) {
	inReserve := p.activeBytes > p.cfg.BytesMax-int64(p.cfg.FragBytesMax)
	if inReserve && int(m.class) < classOf(m.sizeBytes) {
		p.favourite = m
	}
}

// growTo gives a fragment memory up to the byte end, where a chunk of n bytes ends. The last
// FragBytesMax bytes of each memory limit are a reserve for one fragment at a time, whose packets
// arrive in order. The one fragment that uses the memory reserve can always be completed, after
// which another fragment may use the reserve.
func (a *Assembler) growTo(m *Message, end uint32, n int, inOrder bool) bool {
	if a.hoards() && int64(end) > growFactor*(m.arrivedBytes+int64(n)) {
		return false
	}
	if m.starter {
		return a.settle(m, end, n, inOrder)
	}
	p, before := a.pool, m.capBytes()
	reserveBytes := int64(p.cfg.FragBytesMax)
	limitBytes := min(p.cfg.BytesMax, p.activeBytes+p.cfg.PeerBytesMax-a.activeBytes)
	grown := p.grow(m, end, limitBytes-reserveBytes)
	if !grown && (p.favourite == m || p.favourite == nil && inOrder) {
		if grown = p.grow(m, end, limitBytes); grown {
			p.favourite = m
		}
	}
	a.activeBytes += m.capBytes() - before
	a.addEmpty(m.capBytes() - before)
	return grown
}

// beginStarter begins a fragment outside of the memory limits, for a packet that also ends
// another fragment. The buffer of a fragment that beginStarter begins holds only the bytes of its
// first packet. Each peer can have only one fragment that was begun by beginStarter.
func (a *Assembler) beginStarter(h *Header, n int) (*Message, error) {
	if a.starter != nil || h.OffsetBytes != 0 {
		return nil, ErrBudget
	}
	m := &Message{pool: a.pool, starter: true, mem: make([]byte, n)}
	m.expect(h)
	a.enter(m, h, a.slotBits(h.FragID))
	a.starter = m
	return m, nil
}

// settle gives a buffer of the pool, up to the byte end, to a fragment that beginStarter
// has begun. The memory limits of a new fragment also apply to settle.
func (a *Assembler) settle(m *Message, end uint32, n int, inOrder bool) bool {
	p := a.pool
	class := max(a.beginClass(m.sizeBytes, n), classOf(end))
	limitBytes := min(p.cfg.BytesMax, p.activeBytes+p.cfg.PeerBytesMax-a.activeBytes) -
		a.reserveBytes(m.sizeBytes, class, inOrder, nil)
	capBytes := p.capacity(class)
	if int64(end) > p.cfg.GrowBytes+growAhead || p.activeBytes+capBytes > limitBytes {
		return false
	}
	p.enlarge(m, class)
	a.starter = nil
	a.activeBytes += capBytes
	a.addEmpty(m.emptyBytes())
	p.favour(m)
	return true
}
