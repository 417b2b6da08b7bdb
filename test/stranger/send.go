package stranger

import (
	"fmt"
	"slices"
	"time"
)

const (
	waitFirst = 40 * time.Millisecond
	waitMost  = 400 * time.Millisecond
	deadAfter = 5 * time.Second
	again     = 32 // packets sent again in one go
)

// refused means that the peer has refused a message.
type refused struct{ reason byte }

func (r refused) Error() string { return fmt.Sprintf("stranger: refused, reason %d", r.reason) }

// sent is the use of a packet number.
type sent struct {
	seq   uint32
	order uint64
}

// message is a fragment, a put, another operation or a mark that is to be sent.
type message struct {
	tag   byte
	data  []byte
	put   *put
	op    *op
	bare  bool // a mark, or one of the operations of a single Frag: never in a Pack nor in chunks
	large bool // it has begun in chunks
	id    uint32
	first uint16
	each  uint16
	off   int // how far it is cut
	open  int // packets without acknowledgement
	cut   bool
	err   error
	ch    chan error
	done  bool
	then  func(error) // told with done
}

// segment is an unacknowledged packet with a sequence number.
type segment struct {
	p      *packet
	msgs   []*message // whose it is; in a Pack that of each record
	tries  int
	lone   bool // a lone answer, for which it waits longer
	at     time.Time
	wait   time.Duration
	order  uint64
	number uint32
	bytes  int // of the datagram, in the beginning
}

// sender is the state of a connection for its own packets.
type sender struct {
	queue   []*message
	first   uint32
	una     uint32 // oldest number not acknowledged
	next    uint32
	limit   uint32 // last number that credits allow
	raised  time.Time
	out     int // bytes in flight
	outMost int // what is granted of that
	flight  map[uint32]*segment
	fragID  uint32
	open    map[uint32]*message // fragments in chunks that are not finished
	order   uint64
	best    uint64 // the latest order that is acknowledged
	closing bool
	bye     bool // sent
	oldest  time.Time
	again   int // packets sent again, for tests
	packs   int // Packs sent, pieces in them, datagrams in Parts: for tests
	pieces  int
	inSlice int
	held    uint32 // a packet that has its number, and was not sent
	holds   bool   // there is one
	tests   int    // packets that were withheld, for tests
	short   int    // refusals for want of memory: for tests
}

func (c *conn) startSender(first uint32) {
	q := c.queue // what waits, waits on
	c.sender = sender{
		queue: q, first: first, una: first, next: first, limit: first - 1, flight: map[uint32]*segment{},
		open: map[uint32]*message{}, fragID: c.h.opt.fragID, outMost: 0xFFFF << 12,
	}
}

// give queues a message.
func (c *conn) give(m *message) *message {
	m.ch = make(chan error, 1)
	if c.state >= lingering || c.closing {
		m.finish(errClosed)
		return m
	}
	c.queue = append(c.queue, m)
	return m
}

func (m *message) finish(err error) {
	if m.done {
		return
	}
	m.done = true
	m.ch <- err
	if m.then != nil {
		m.then(err)
	}
}

// send queues a message for the peer's handler of a tag.
func (c *conn) send(tag byte, data []byte) *message {
	return c.give(&message{tag: tag, data: data})
}

// close queues a Bye behind all messages, with or without a code of the application.
func (c *conn) close(code uint16) {
	m := &message{tag: tagBye, bare: true}
	if code != 0 {
		m.data = le.AppendUint16(nil, code)
	}
	c.give(m)
	c.closing = true
}

// abort ends the connection at once, with a code of section 8.
func (c *conn) abort(code uint16) {
	p := &packet{
		kind: kFrag, tag: tagBye, conn: c.far, seq: c.next, payload: le.AppendUint16(nil, code),
	}
	if c.relies {
		p.seq = 0
	}
	c.post(0, p)
	c.end(errClosed)
}

func (c *conn) failAll(err error) {
	for _, m := range c.queue {
		m.finish(err)
	}
	for _, s := range c.flight {
		for _, m := range s.msgs {
			m.finish(err)
		}
	}
	for _, r := range c.waiting {
		r.finish(err)
	}
	c.queue = nil
}

// pump sends as many waiting messages as are allowed.
func (c *conn) pump() {
	if c.state != connected {
		return
	}
	if c.relies {
		c.pumpCounted()
		return
	}
	if len(c.flight) == 0 && c.h.now.Sub(c.raised) >= 10*time.Millisecond {
		if most := c.next + 31; int32(c.limit-most) > 0 {
			c.limit = most // credits lapse
		}
	}
	for !c.bye && c.opens() {
		s := c.nextSegment()
		if s == nil {
			return
		}
		s.p.conn, s.p.seq = c.far, c.next
		if len(c.flight) == 0 {
			c.oldest = c.h.now
		}
		c.flight[c.next] = s
		c.next++
		for _, m := range s.msgs {
			m.open++
		}
		c.transmit(s)
	}
}

// opens reports whether windows and credits allow another packet.
func (c *conn) opens() bool {
	return int32(c.limit-c.next) >= 0 && c.next-c.una < min(c.peerWindow, 4096) &&
		(c.out < c.outMost || c.outMost == 0xFFFF<<12)
}

// transmit sends a segment for the first time or again.
func (c *conn) transmit(s *segment) {
	if s.tries == 0 && !c.holds && c.h.dice.IntN(100) < c.h.opt.withhold {
		c.withhold(s)
		return
	}
	c.holds = c.holds && c.held != s.p.seq
	if !s.lone {
		c.hasten()
	}
	s.lone = false
	s.p.flags &^= fAck | fDup | fLater
	s.p.ack, s.p.credit, s.p.creditBytes = 0, 0, 0
	if c.h.dice.IntN(2) == 0 {
		s.lone = c.answersAlone(s) && c.h.dice.IntN(2) == 0
		c.putAck(s.p)
		c.owed, c.owedAt = false, time.Time{}
	}
	ch := 1
	if s.tries == 0 && s.p.kind != kChunk && len(s.p.encode()) <= c.command {
		ch = 0
	}
	c.order++
	s.order, s.at, s.wait = c.order, c.h.now, min(waitFirst<<s.tries, waitMost)
	s.tries++
	if s.lone {
		s.p.flags |= fLater
		s.wait += loneWait
		c.lone.sent++
	}
	b := s.p.encode()
	if s.bytes == 0 {
		s.bytes = len(b)
		c.out += len(b)
	}
	if len(b) > c.size || s.tries > 1 && len(b) > 104 && c.h.dice.IntN(100) < c.h.opt.parts {
		c.postParts(ch, s)
		return
	}
	c.post(ch, s.p)
	s.number = s.p.number
	c.numbers[ch][s.number] = sent{s.p.seq, s.order}
}

// withhold holds a packet back as a test for optimistic ACKs, until the time of its first
// retransmission.
func (c *conn) withhold(s *segment) {
	c.held, c.holds = s.p.seq, true
	c.tests++
	c.order++
	s.order, s.at, s.wait, s.tries = c.order, c.h.now, waitFirst, 1
	s.bytes = len(s.p.encode())
	c.out += s.bytes
}

// tellsOfHeld reports whether an acknowledgement covers the packet that was held back.
func (c *conn) tellsOfHeld(p *packet) bool {
	if !c.holds {
		return false
	}
	if int32(p.ack-c.held) >= 0 || p.sack != nil && p.sack.last == c.held {
		return true
	}
	away := int64(int32(c.held-p.ack)) - 2
	return p.sack != nil && slices.ContainsFunc(p.sack.ranges, func(r [2]uint16) bool {
		return away >= int64(r[0]) && away <= int64(r[0])+int64(r[1])
	})
}

// resend sends packets that seem lost again.
func (c *conn) resend() {
	n := 0
	for seq := c.una; seq != c.next && n < again; seq++ {
		s := c.flight[seq]
		if s == nil {
			continue
		}
		out := c.h.now.Sub(s.at)
		if out > s.wait || s.order < c.best && out > 5*time.Millisecond {
			c.transmit(s)
			c.again++
			n++
		}
	}
	if len(c.flight) > 0 && c.h.now.Sub(c.oldest) > deadAfter {
		c.end(errDead)
	}
}

// free handles the acknowledgement of one packet.
func (c *conn) free(seq uint32) {
	s := c.flight[seq]
	if s == nil {
		return
	}
	delete(c.flight, seq)
	c.out -= s.bytes
	if s.tries == 1 {
		c.best = max(c.best, s.order)
	}
	for _, m := range s.msgs {
		c.closed(m)
	}
}

// closed counts one acknowledged packet of a message.
func (c *conn) closed(m *message) {
	m.open--
	if m.open > 0 || !m.cut {
		return
	}
	if m.large && c.open[m.id] == m {
		delete(c.open, m.id)
	}
	m.finish(m.err)
	if m.tag == tagBye {
		c.end(nil)
	}
}

// onAck handles the acknowledgement of a packet, and returns false for an invalid one.
func (c *conn) onAck(p *packet) bool {
	if p.flags&fAck == 0 {
		return true
	}
	last := c.next - 1
	if int32(p.ack-last) > 0 {
		c.h.wrong("ack %d covers what was not sent, %d is the last", p.ack, last)
		return false
	}
	if c.tellsOfHeld(p) {
		c.h.wrong("acknowledgement up to %d: %d was withheld", p.ack, c.held)
	}
	if !c.sackFits(p) {
		return false
	}
	if int32(p.ack-(c.una-1)) < 0 {
		return true // an old one
	}
	for c.una != p.ack+1 {
		c.free(c.una)
		c.una++
		c.oldest = c.h.now
	}
	if p.sack != nil {
		for _, r := range p.sack.ranges {
			for n := uint32(r[0]); n <= uint32(r[0])+uint32(r[1]); n++ {
				c.free(p.ack + 2 + n)
			}
		}
	}
	to := p.ack + uint32(max(p.credit, 1))
	if int32(to-c.limit) > 0 {
		c.limit, c.raised = to, c.h.now
	}
	if to == c.limit {
		c.outMost = int(max(p.creditBytes, 1)) << 12
	}
	return true
}

// sackFits checks the payload of an Ack by section 6, as far as its receiver can.
func (c *conn) sackFits(p *packet) bool {
	s := p.sack
	if p.kind == kAck && (s != nil) != (c.features&featSack != 0) {
		c.h.wrong("Sack and the features do not fit: %+v", p)
		return false
	}
	if s == nil {
		return true
	}
	for _, r := range s.ranges {
		if to := p.ack + 2 + uint32(r[0]) + uint32(r[1]); int32(to-(c.next-1)) > 0 {
			c.h.wrong("Sack tells of %d, %d is the last", to, c.next-1)
			return false
		}
	}
	if s.lastNumber == 0 && s.last == p.ack && s.last == c.first-1 {
		return true // nothing has come yet
	}
	if was, ok := c.numbers[s.lastData][s.lastNumber]; !ok || was.seq != s.last {
		c.h.wrong("Sack: last %d came as %d of channel %d, which was of %d (%v)", s.last,
			s.lastNumber, s.lastData, was.seq, ok)
		return false
	}
	return true
}

// onNack handles a refusal of section 8.
func (c *conn) onNack(p *packet) {
	s := c.flight[p.seq]
	if p.tag == 4 {
		c.short++
	}
	if c.holds && p.seq == c.held {
		c.h.wrong("%d is refused, and was withheld", p.seq)
		return
	}
	if s == nil || p.tag == 4 || s.p.kind == kFrag && s.p.tag == tagVoid {
		return
	}
	err := refused{p.tag}
	var kept []record
	var keptOf, failed []*message
	for i, m := range s.msgs {
		if s.p.kind == kPack && p.tag == 3 && s.p.records[i].tag != p.payload[0] {
			kept, keptOf = append(kept, s.p.records[i]), append(keptOf, m)
			continue
		}
		c.fail(m, err)
		failed = append(failed, m)
	}
	s.msgs = keptOf
	if kept != nil {
		s.p = &packet{kind: kPack, conn: s.p.conn, seq: s.p.seq, records: kept}
	} else {
		s.p = &packet{kind: kFrag, tag: tagVoid, conn: s.p.conn, seq: s.p.seq}
	}
	for _, m := range failed {
		c.closed(m)
	}
	c.transmit(s)
}

// fail stops sending a message.
func (c *conn) fail(m *message, err error) {
	m.err = err
	if !m.cut {
		m.cut = true
		if len(c.queue) > 0 && c.queue[0] == m {
			c.queue = c.queue[1:]
		}
	}
}
