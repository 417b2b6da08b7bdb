package frag

// This file decides how much memory a fragment gets, and when. There is no hold and wait: a
// fragment that has begun finishes with the memory that it has, or grows into a reserve that only
// one fragment uses at a time.

// emptyPart is the part that one peer may have without having filled it, of the memory beyond the
// reserve that others have not left empty: so any number of those who do leave something.
const emptyPart = 16

// beginLeast is what a fragment of a peer that has its share begins with, at least: the word of
// bits that it needs anyway (Message.cover) is a thousandth of that.
const beginLeast = 8 << 10

// emptyBytes is how much of a fragment's memory nothing has come for.
func (m *Message) emptyBytes() int64 {
	if m.starter {
		return 0
	}
	return m.capBytes() - m.arrivedBytes
}

// fill notes that bytes of a fragment have come.
func (a *Assembler) fill(m *Message, bytes int64) {
	before := m.emptyBytes()
	m.arrivedBytes += bytes
	a.addEmpty(m.emptyBytes() - before)
}

// addEmpty books memory of the peer's that nothing has come for.
func (a *Assembler) addEmpty(bytes int64) {
	a.emptyBytes += bytes
	a.pool.emptyBytes += bytes
}

// hoards says whether the peer has more memory that it has not filled than it needs: a packet for
// each of many fragments would take all there is. From then on each gets what its packets fill, and
// some more. The same holds for every peer once others have left half of the memory empty, as many
// small shares add up to all of it.
func (a *Assembler) hoards() bool {
	p := a.pool
	others := p.emptyBytes - a.emptyBytes
	share := (p.cfg.BytesMax - int64(p.cfg.FragBytesMax) - others) / emptyPart
	return others > share*emptyPart || a.emptyBytes > max(share, p.cfg.GrowBytes)
}

// beginClass is the class of the buffer with which a fragment begins, with a chunk of n bytes.
func (a *Assembler) beginClass(sizeBytes uint32, n int) int {
	class := a.pool.beginClass(sizeBytes)
	if a.hoards() {
		class = min(class, classOf(uint32(max(n, beginLeast))))
	}
	return class
}

// begin makes a place for a new fragment, of which n bytes have come, as if what is leaving had
// left.
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

// reserveBytes is what of both budgets is not for a fragment of sizeBytes that is to begin with a
// buffer of a class, as if what is leaving had left.
func (a *Assembler) reserveBytes(
	sizeBytes uint32, class int, inOrder bool, leaving *Message,
) int64 {
	p := a.pool
	reserveBytes := int64(p.cfg.FragBytesMax)
	if inOrder {
		reserveBytes = 0
	}
	// Others that grow would keep it from growing.
	if class < classOf(sizeBytes) && p.favourite != nil && p.favourite != leaving {
		reserveBytes = int64(p.cfg.FragBytesMax)
	}
	if leaving != nil {
		reserveBytes -= leaving.capBytes()
	}
	return reserveBytes
}

// favour makes a fragment that has begun the one that grows into the reserve, if it has begun there
// and is to grow.
func (p *Pool) favour(m *Message) {
	inReserve := p.activeBytes > p.cfg.BytesMax-int64(p.cfg.FragBytesMax)
	if inReserve && int(m.class) < classOf(m.sizeBytes) {
		p.favourite = m
	}
}

// growTo gives a fragment memory up to the byte end, where a chunk of n bytes ends. The last
// FragBytesMax bytes of either budget are for one fragment alone, which once began to grow into
// them in order: whatever else is under way, it can come to its end, and then another one.
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

// beginStarter begins a fragment for which there is no memory in the packet in which another one
// ends, with room for that packet's bytes alone, beside all budgets. Were the packet refused, the
// fragment that ends in it would hold its memory while the sender waits for the other's; two such
// senders would wait for each other. So a peer has one packet more at most.
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

// settle gives a fragment that has room for its first packet alone a buffer of the pool up to the
// byte end, if one that begins would get it.
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
