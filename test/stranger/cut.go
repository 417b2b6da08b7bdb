package stranger

// The functions below make the next packet, which is a Frag, a Chunk, or a Pack of several
// messages.

// room is the maximum number of bytes of a packet of this connection.
func (c *conn) room() int { return min(c.mtu, c.size) }

func (m *message) extras() int {
	n := 0
	if m.put != nil {
		n += 16
	}
	if m.op != nil {
		n += 8
	}
	return n
}

// alone reports whether a message must never be in a Pack.
func (m *message) alone() bool { return m.bare || m.put != nil || m.op != nil }

func (c *conn) nextSegment() *segment {
	if len(c.queue) == 0 {
		return nil
	}
	m := c.queue[0]
	if m.bare {
		c.queue = c.queue[1:]
		m.cut = true
		c.bye = m.tag == tagBye
		return &segment{p: m.frag(m.data), msgs: []*message{m}}
	}
	if !m.large && len(m.data)+32+m.extras() <= c.room() {
		if s := c.pack(nil); s != nil {
			return s
		}
		c.queue = c.queue[1:]
		m.cut = true
		return &segment{p: m.frag(m.data), msgs: []*message{m}}
	}
	if !m.large && !c.beginLarge(m, c.room()-48) {
		return nil
	}
	return c.nextChunk(m)
}

func (m *message) frag(b []byte) *packet {
	p := &packet{kind: kFrag, tag: m.tag, payload: b}
	m.decorate(p, 0)
	return p
}

// decorate adds the extras of a message to its packet.
func (m *message) decorate(p *packet, off int) {
	if m.put != nil {
		p.flags |= fPut
		p.put = &put{m.put.handle, m.put.offset + uint64(off)}
	}
	if m.op != nil {
		p.flags |= fOp
		p.op = m.op
	}
}

// beginLarge chooses the grid of a fragment whose first chunk has room for the given number of
// bytes.
func (c *conn) beginLarge(m *message, room int) bool {
	for id := range c.open {
		if c.fragID-id >= 2048 {
			return false // its slot is taken
		}
	}
	m.large, m.id = true, c.fragID
	c.open[m.id] = m
	c.fragID++
	most := c.room() - 48 - m.extras()
	m.first, m.each = uint16(min(room, len(m.data))), uint16(most)
	if m.put == nil && c.h.dice.IntN(4) == 0 { // grids may differ
		m.each = uint16(most - c.h.dice.IntN(most-128+1)/4)
	}
	return true
}

func (c *conn) nextChunk(m *message) *segment {
	n, off := int(m.each), m.off
	if off == 0 && m.put == nil {
		n = int(m.first)
	}
	n = min(n, len(m.data)-off)
	x := &chunk{fragID: m.id, size: uint32(len(m.data)), offset: uint32(off)}
	if m.put == nil {
		x.first, x.each = m.first, m.each
	}
	m.off += n
	if m.off == len(m.data) {
		m.cut = true
		c.queue = c.queue[1:]
		r := &record{tag: m.tag, piece: x, data: m.data[off : off+n]}
		if !m.alone() && !c.relies && off > 0 && n+20+4 < c.room()-32 {
			if s := c.pack(&piece{m, r}); s != nil {
				return s
			}
		}
	}
	p := &packet{kind: kChunk, tag: m.tag, chunk: x, payload: m.data[off : off+n]}
	m.decorate(p, off)
	return &segment{p: p, msgs: []*message{m}}
}

type piece struct {
	m *message
	r *record
}

// pack puts waiting messages into a common packet, behind the end of a fragment if there is one, or
// returns nil if nothing can share a packet or a random draw decides so.
func (c *conn) pack(tail *piece) *segment {
	s := &segment{p: &packet{kind: kPack}}
	left := c.room() - 32
	add := func(m *message, r record) {
		s.msgs, s.p.records = append(s.msgs, m), append(s.p.records, r)
		left -= 4 + len(r.data)
		if r.piece != nil {
			left -= 16
		}
	}
	if tail != nil {
		add(tail.m, *tail.r)
	} else if c.h.dice.IntN(3) == 0 {
		return nil
	}
	for len(c.queue) > 0 && len(s.msgs) < 40 {
		m := c.queue[0]
		if m.alone() || m.large || len(m.data)+4 > left {
			break
		}
		c.queue = c.queue[1:]
		m.cut = true
		add(m, record{tag: m.tag, data: m.data})
	}
	if len(s.msgs) > 0 && len(c.queue) > 0 && left > 20 && !c.relies {
		m := c.queue[0]
		if !m.alone() && !m.large && len(m.data)+32 > c.room() && c.beginLarge(m, left-20) {
			x := &chunk{m.id, uint32(len(m.data)), 0, m.first, m.each}
			m.off = int(m.first)
			add(m, record{tag: m.tag, piece: x, data: m.data[:m.first]})
		}
	}
	if tail != nil && len(s.msgs) == 1 || len(s.msgs) == 0 {
		return nil
	}
	c.packs++
	for _, r := range s.p.records {
		if r.piece != nil {
			c.pieces++
		}
	}
	return s
}
