package stranger

import (
	"slices"
	"time"
)

// The functions below implement section 16, which is about connections over a reliable and ordered
// network. All packets are counted, few have a number, and none is retransmitted.

const featRely = 1 << 1

// rely is the additional state of a reliable connection.
type rely struct {
	relies   bool
	expect   uint32 // count of the next packet of the peer
	came     uint32 // that of the latest one
	told     uint32 // acknowledged last
	heardAck bool   // the peer is known to be established
	askedAt  time.Time
	greeted  bool      // the second Ack has gone
	current  *assembly // the fragment whose chunks come
	refused  byte      // why it is not taken
	numbered int       // packets with a number, without one, and questions: for tests
	nameless int
	asks     int
	bare     int // packets without a number that came
	noMemory int // refusals for want of it
}

// nextNo returns the number after another one, without 0.
func nextNo(n uint32) uint32 {
	if n++; n == 0 {
		return 1
	}
	return n
}

// startRelying starts the reliable mode, if both Hellos have announced it.
func (c *conn) startRelying(first uint32) {
	c.rely = rely{relies: c.features&featRely != 0}
	if !c.relies {
		return
	}
	c.expect, c.came, c.told = first, first-1, first-1
	if first == 0 {
		c.expect = 1
	}
	if c.next == 0 {
		c.next, c.una, c.first = 1, 1, 1
	}
	c.limit, c.size, c.features = c.una-1, c.mtu, c.features&^featSack
	c.law.granted = c.came
}

// pumpCounted sends what credits allow.
func (c *conn) pumpCounted() {
	if c.idle() && c.h.now.Sub(c.raised) >= 10*time.Millisecond {
		if most := c.una + 31; int32(c.limit-most) > 0 {
			c.limit = most
		}
	}
	for !c.bye && len(c.queue) > 0 && c.heardAck && int32(c.limit-c.next) >= 0 {
		if c.queue[0].tag == tagBye && !c.idle() {
			return
		}
		s := c.nextSegment()
		if s == nil {
			return
		}
		for _, m := range s.msgs {
			m.open++
		}
		numbered := s.msgs[0].cut // of a fragment the last chunk alone
		if s.p.kind != kChunk {
			numbered = len(c.queue) == 0 || c.mayFail(s) || c.h.dice.IntN(3) > 0
		}
		c.postCounted(s, numbered)
	}
}

// mayFail reports whether the sender wants to hear of a refusal of this packet.
func (c *conn) mayFail(s *segment) bool {
	return slices.ContainsFunc(s.msgs, func(m *message) bool { return m.tag > tagEchoes })
}

// tagEchoes is the last tag for which every peer of the tests has a handler.
const tagEchoes = 2

func (c *conn) postCounted(s *segment, numbered bool) {
	s.p.conn, s.p.seq = c.far, 0
	if numbered {
		s.p.seq = c.next
		c.numbered++
	} else {
		c.nameless++
	}
	if c.idle() {
		c.oldest = c.h.now
	}
	c.flight[c.next] = s
	c.next = nextNo(c.next)
	c.post(0, s.p)
}

func (c *conn) idle() bool { return len(c.flight) == 0 }

// question is a Void with its number, which needs no credit.
func (c *conn) question() {
	c.asks++
	c.postCounted(&segment{p: &packet{kind: kFrag, tag: tagVoid}}, true)
}

// tickCounted asks for answers that are due, and sometimes without need.
func (c *conn) tickCounted() {
	if !c.idle() && c.h.now.Sub(c.oldest) > deadAfter {
		c.end(errDead)
		return
	}
	if c.heardAck && !c.bye && c.between() && c.h.now.Sub(c.askedAt) > 20*time.Millisecond {
		c.askedAt = c.h.now
		c.question()
	}
}

// between reports whether no fragment of this side is partly sent.
func (c *conn) between() bool { return len(c.queue) == 0 || !c.queue[0].large }

// onAckCounted handles an Ack, which acknowledges everything up to a number, refused or not.
func (c *conn) onAckCounted(p *packet) {
	last := c.next - 1
	if int32(p.ack-last) > 0 {
		c.h.wrong("ack %d of what was not sent, %d is the last", p.ack, last)
		return
	}
	c.heard, c.confirmed, c.heardAck = c.h.now, true, true
	for int32(p.ack-c.una) >= 0 {
		s := c.flight[c.una]
		delete(c.flight, c.una)
		c.una, c.oldest = nextNo(c.una), c.h.now
		if s == nil {
			continue
		}
		for _, m := range s.msgs {
			c.closed(m)
		}
		if c.state != connected {
			return
		}
	}
	if to := p.ack + uint32(max(p.credit, 1)); int32(to-c.limit) > 0 {
		c.limit, c.raised = to, c.h.now
	}
}

// onNackCounted handles a refusal, after which nothing replaces the refused packet.
func (c *conn) onNackCounted(p *packet) {
	s := c.flight[p.seq]
	if s == nil || s.p.seq != p.seq {
		c.h.wrong("Nack of %d, which has no number or is not on its way", p.seq)
		return
	}
	if p.tag == 4 {
		c.short++
		c.againCounted(s.msgs[0])
		return
	}
	for i, m := range s.msgs {
		if s.p.kind == kPack && (p.tag != 3 || s.p.records[i].tag != p.payload[0]) {
			continue
		}
		c.fail(m, refused{p.tag})
	}
}

// againCounted sends a fragment once more, with another fragID.
func (c *conn) againCounted(m *message) {
	delete(c.open, m.id)
	m.off, m.large, m.cut = 0, false, false
	at := 0
	if !c.between() {
		at = 1
	}
	c.queue = slices.Insert(c.queue, at, m)
}

// onCounted handles a Frag, Chunk or Pack in the order of arrival.
func (c *conn) onCounted(p *packet) {
	if c.state != connected {
		return
	}
	c.heard, c.confirmed = c.h.now, true
	if p.seq != 0 && p.seq != c.expect {
		c.h.wrong("packet %d is counted as %d", p.seq, c.expect)
	}
	if p.seq == 0 {
		c.bare++
	}
	c.came, c.expect = c.expect, nextNo(c.expect)
	nack := func(reason byte, of ...byte) {
		if p.seq != 0 {
			c.post(1, &packet{kind: kNack, tag: reason, conn: c.far, seq: p.seq, payload: of})
		}
	}
	switch {
	case p.kind == kPack:
		c.takePackCounted(p, nack)
	case p.kind == kChunk:
		c.takeChunkCounted(p, nack)
	case p.tag == tagVoid:
	case p.tag == tagBye:
		c.state, c.linger = lingering, c.h.now.Add(150*time.Millisecond)
		if len(p.payload) == 2 {
			c.err = ended{le.Uint16(p.payload)}
		}
		c.failAll(errClosed)
	case c.h.handlers[p.tag] == nil:
		nack(2)
	default:
		c.deliver(p.tag, p.payload)
	}
	share := uint32(c.h.opt.credit) / 4
	c.owed = c.owed || p.seq != 0 || c.came-c.told >= share
	if c.came-c.told >= share || c.state == lingering {
		c.postAckCounted()
	}
}

func (c *conn) takePackCounted(p *packet, nack func(byte, ...byte)) {
	var tags []byte
	c.inPacks++
	for _, r := range p.records {
		switch {
		case r.piece != nil:
			c.h.wrong("a Pack with pieces: %+v", r)
		case c.h.handlers[r.tag] != nil:
			c.deliver(r.tag, r.data)
		case !slices.Contains(tags, r.tag):
			tags = append(tags, r.tag)
		}
	}
	for _, tag := range tags {
		nack(3, tag)
	}
}

func (c *conn) takeChunkCounted(p *packet, nack func(byte, ...byte)) {
	x, a := p.chunk, c.current
	if x.offset == 0 {
		if a != nil {
			c.h.wrong("fragment %d begins within %d", x.fragID, a.chunk.fragID)
		}
		a = &assembly{tag: p.tag, chunk: *x, buf: make([]byte, x.size)}
		c.current, c.refused = a, 0
		switch {
		case c.h.handlers[p.tag] == nil:
			c.refused = 2
		case c.full:
			c.refused = 4
			c.noMemory++
		}
	}
	if a == nil || x.fragID != a.chunk.fragID || int(x.offset) != a.n || x.size != a.chunk.size {
		c.h.wrong("chunk %+v does not follow", *x)
		return
	}
	copy(a.buf[x.offset:], p.payload)
	if a.n += len(p.payload); a.n < len(a.buf) {
		if p.seq != 0 {
			c.h.wrong("a chunk that is not the last one has number %d", p.seq)
		}
		return
	}
	c.current = nil
	if c.refused != 0 {
		nack(c.refused)
		return
	}
	c.deliver(a.tag, a.buf)
}

// postAckCounted acknowledges all received packets, whether refused or not.
func (c *conn) postAckCounted() {
	p := &packet{
		kind: kAck, flags: fAck, conn: c.far, ack: c.came, credit: c.h.opt.credit,
		creditBytes: c.h.opt.bytes,
	}
	c.told, c.owed, c.owedAt = c.came, false, time.Time{}
	c.law.granted = c.came + uint32(c.h.opt.credit)
	c.post(1, p)
}

// judgeCounted checks a packet that the other side sends in a reliable connection.
func (c *conn) judgeCounted(d *datagram, p *packet) {
	h := c.h
	switch p.kind {
	case kFrag, kChunk, kPack:
		abrupt := p.kind == kFrag && p.tag == tagBye && len(p.payload) == 2 && p.payload[1]&0x80 == 0
		switch {
		case d.ch != 0 || p.flags&fAck != 0:
			h.wrong("kind %d on channel %d, flags %#x", p.kind, d.ch, p.flags)
		case abrupt && p.seq != 0:
			h.wrong("a Bye at once has number %d", p.seq)
		case !abrupt && (p.kind != kFrag || p.tag != tagVoid):
			// The count may be larger by one if the number is left out.
			if most := c.law.granted + 1; int32(c.expect-most) > 0 {
				h.wrong("packet %d, and granted was up to %d", c.expect, c.law.granted)
			}
		case p.tag == tagVoid && p.seq == 0:
			h.wrong("a question without a number")
		}
	case kAck, kNack:
		if d.ch != 1 || p.kind == kNack && p.flags&fAck != 0 || p.sack != nil {
			h.wrong("kind %d on channel %d, flags %#x", p.kind, d.ch, p.flags)
		}
	case kPart, kPing:
		h.wrong("kind %d in a reliable connection", p.kind)
	}
	if len(d.b) > c.mtu {
		h.wrong("%d bytes", len(d.b))
	}
}
