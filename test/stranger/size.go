package stranger

import "time"

// sizes is the state of section 17, the sizes of datagrams that this side may send.
type sizes struct {
	size    int
	asked   map[uint64]int
	askDue  time.Time
	askedNo int
}

func (c *conn) startSizes() {
	c.sizes = sizes{size: min(1200, c.mtu), asked: map[uint64]int{}}
}

// askSize sends a Ping of the largest possible size.
func (c *conn) askSize() {
	if c.size == c.mtu || c.askedNo == 5 {
		return
	}
	c.askedNo++
	c.askDue = c.h.now.Add(20 * time.Millisecond)
	n := c.h.dice.Uint64()
	c.asked[n] = c.mtu
	c.post(1, &packet{kind: kPing, conn: c.far, nonce: n, padding: c.mtu - 40})
}

func (c *conn) sizeTick() {
	if c.askedNo > 0 && c.h.now.After(c.askDue) {
		c.askSize()
	}
}

func (c *conn) onPong(p *packet) {
	size, ok := c.asked[p.nonce]
	if !ok {
		c.h.wrong("Pong of a Ping that was never sent")
		return
	}
	c.heard = c.h.now
	c.size = max(c.size, size)
}

// slices64 is a datagram that arrives in Parts.
type slices64 struct {
	b    []byte
	got  map[uint32]bool // of 64 bytes each
	left int
}

func (c *conn) onPart(d *datagram, p *packet) {
	away := p.seq - c.expected
	if c.state != connected || away >= c.h.opt.window && away < 1<<31 {
		return
	}
	c.heard = c.h.now
	if away >= 1<<31 || c.here[p.seq] {
		c.copies++
		c.dupOwed = true
		return
	}
	x := p.part
	s := c.parts[p.seq]
	if s == nil || len(s.b) != int(x.total) {
		s = &slices64{make([]byte, x.total), map[uint32]bool{}, int(x.total)}
		c.parts[p.seq] = s
	}
	copy(s.b[x.offset:], x.slice)
	for at := x.offset; at < x.offset+uint32(len(x.slice)); at += 64 {
		if !s.got[at] {
			s.got[at] = true
			s.left -= min(64, int(x.total-at))
		}
	}
	if s.left > 0 {
		return
	}
	delete(c.parts, p.seq)
	whole, err := decode(s.b)
	if err != nil || whole.conn != p.conn || whole.seq != p.seq ||
		whole.kind != kFrag && whole.kind != kChunk && whole.kind != kPack {
		c.h.wrong("the Parts of %d are no packet of it: %x", p.seq, s.b[:min(80, len(s.b))])
		return
	}
	c.inParts++
	c.onSequenced(d.ch, whole)
}

// postParts sends a segment in slices.
func (c *conn) postParts(ch int, s *segment) {
	c.inSlice++
	c.stamp(ch, s.p)
	b := s.p.encode()
	c.numbers[ch][s.p.number] = sent{s.p.seq, s.order}
	each := min(max((len(b)/3)&^63, 64), (c.room()-40)&^63)
	for at := 0; at < len(b); at += each {
		x := &part{uint32(at), uint32(len(b)), b[at:min(at+each, len(b))]}
		c.post(ch, &packet{kind: kPart, conn: c.far, seq: s.p.seq, part: x})
	}
}
