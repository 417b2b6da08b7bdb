package frag

// The code in this file decides how much memory a fragment gets, and when. A fragment either gets
// all its memory when it begins, or can grow into a memory reserve that only one fragment uses at a
// time.

// For one peer, the memory that is allocated for fragments but not filled by chunks is limited. The
// limit is the pool's memory, without the memory reserve and without the unfilled memory of other
// peers, divided by emptyPart.
const emptyPart = 16

// beginLeast is the least size, in bytes, of the first buffer of a fragment whose peer has too much
// allocated memory that no chunk has filled.
const beginLeast = 8 << 10

// emptyBytes is the number of bytes of a fragment's buffer that no chunk has filled.
func (m *Message) emptyBytes() int64 {
	if m.starter {
		return 0
	}
	return m.capBytes() - m.arrivedBytes
}

// The method fill adds to the count of the fragment's bytes that have arrived.
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

// The method hoards reports whether the peer has more allocated memory that no chunk has filled
// than is permitted. Without a limit on memory that no chunk has filled, a peer could take all
// memory with one packet for each of many fragments. If the unfilled memory of the other peers
// together is more than half of the pool's memory without the reserve, every peer counts as over
// the limit.
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

// The method begin starts a new fragment whose first received chunk has n bytes. The memory of the
// fragment given by the argument leaving counts as free.
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

// reserveBytes returns the part of each memory limit that a new fragment of sizeBytes may not use,
// if its first buffer has the given size class. The memory of the fragment given by the argument
// leaving counts as free.
func (a *Assembler) reserveBytes(
	sizeBytes uint32, class int, inOrder bool, leaving *Message,
) int64 {
	p := a.pool
	reserveBytes := int64(p.cfg.FragBytesMax)
	if inOrder {
		reserveBytes = 0
	}
	// At most one fragment (the field favourite) may grow into the memory reserve. While there is
	// such a fragment, a new fragment that must grow later may not use the reserve.
	if class < classOf(sizeBytes) && p.favourite != nil && p.favourite != leaving {
		reserveBytes = int64(p.cfg.FragBytesMax)
	}
	if leaving != nil {
		reserveBytes -= leaving.capBytes()
	}
	return reserveBytes
}

// If a new fragment has begun in the memory reserve and must grow later, the method favour makes it
// the only fragment that may grow into the reserve.
func (p *Pool) favour(m *Message) {
	inReserve := p.activeBytes > p.cfg.BytesMax-int64(p.cfg.FragBytesMax)
	if inReserve && int(m.class) < classOf(m.sizeBytes) {
		p.favourite = m
	}
}

// The method growTo gives a fragment memory up to the offset end, at which a chunk of n bytes ends.
// The last FragBytesMax bytes of each memory limit are a reserve for one fragment at a time, whose
// packets arrive in order. The one fragment that uses the memory reserve can always be completed.
// When this fragment is complete, another fragment may use the memory reserve.
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

// The method settle replaces the buffer of a fragment that beginStarter has begun by a buffer of
// the pool, with room up to the offset end. For the new buffer of the fragment, the same memory
// limits apply as for a new fragment.
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
