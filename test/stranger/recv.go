package stranger

import (
	"bytes"
	"slices"
	"time"
)

// assembly is a fragment that arrives in chunks.
type assembly struct {
	tag   byte
	chunk chunk // its grid
	buf   []byte
	got   map[uint32]bool
	n     int
}

// receiver is the state of a connection for the peer's packets.
type receiver struct {
	expected  uint32 // next in order
	top       uint32 // one above the highest received
	here      map[uint32]bool
	owed      bool // an Ack
	owedAt    time.Time
	urgentTo  uint32 // the Ack of everything up to here is to leave at once
	urgent    bool
	askedAcks int  // Acks that were asked for: for tests
	acked     bool // an acknowledgement was sent: what it grants holds
	dupOwed   bool
	copies    uint32
	last      uint32
	lastNo    uint32
	lastCh    int
	parts     map[uint32]*slices64
	slots     map[uint32]uint32 // slot to fragID
	build     map[uint32]*assembly
	refusals  map[uint32]uint32 // sequence number to fragID
	dropped   map[uint32]bool   // fragments that the sender has failed
	byeHere   bool
	byeSeq    uint32
	byeErr    error
	delivered int
	inParts   int // packets that came in Parts, pieces, chunks, Packs: for tests
	inPieces  int
	inPacks   int
	full      bool // no memory: for tests
	linger    time.Time
}

func (c *conn) startReceiver(first uint32) {
	c.receiver = receiver{
		expected: first, top: first, here: map[uint32]bool{}, last: first - 1,
		parts: map[uint32]*slices64{}, slots: map[uint32]uint32{}, build: map[uint32]*assembly{},
		refusals: map[uint32]uint32{}, dropped: map[uint32]bool{},
	}
	c.law.granted = c.limitOf() - uint32(c.h.opt.credit) + 1 // that of a Hello is 1
	c.remote.counts = map[uint32]*count{}
}

// onTraffic handles a packet that is neither a Hello nor the answer to one.
func (c *conn) onTraffic(d *datagram, p *packet) {
	if c.state == halfOpen && !c.relies {
		c.askFromHalfOpen()
		return
	}
	if c.state == halfOpen && !c.promote() {
		return
	}
	if c.state == connecting {
		if c.initiator && c.proven != 3 || c.far == 0 {
			return
		}
		if c.establish(); c.state != connected {
			return
		}
	}
	if p.kind == kFrag && p.tag == tagBye && len(p.payload) == 2 && le.Uint16(p.payload) < 0x8000 {
		if c.state == connected && (c.relies && p.seq == 0 ||
			!c.relies && p.seq-c.expected <= c.h.opt.window) {
			c.end(ended{le.Uint16(p.payload)})
		}
		return
	}
	switch p.kind {
	case kPing:
		c.heard = c.h.now
		c.post(d.ch, &packet{kind: kPong, conn: c.far, nonce: p.nonce})
		return
	case kPong:
		c.onPong(p)
		return
	case kPart:
		c.onPart(d, p)
		return
	case kFrag, kChunk, kPack:
		if c.relies {
			c.onCounted(p)
		} else {
			c.onSequenced(d.ch, p)
		}
		return
	}
	if c.relies {
		if p.kind == kAck {
			c.onAckCounted(p)
		} else {
			c.onNackCounted(p)
		}
		return
	}
	if !c.onAck(p) {
		return
	}
	if p.flags&fAsk != 0 && !c.askedFor(p.seq) {
		return
	}
	c.heard, c.confirmed = c.h.now, true
	if p.kind == kNack && c.state == connected {
		c.onNack(p)
	}
}

// onSequenced handles a Frag, Chunk or Pack in the order of section 11.
func (c *conn) onSequenced(ch int, p *packet) {
	if c.state == lingering {
		if p.seq-c.expected >= 1<<31 {
			c.owed, c.dupOwed = true, true
		}
		return
	}
	if !c.onAck(p) || c.state == gone {
		return
	}
	c.heard, c.confirmed = c.h.now, true
	away := p.seq - c.expected
	if away >= 1<<31 || c.here[p.seq] {
		c.copies++
		c.dupOwed = true
		c.copyCame()
		return
	}
	if away >= c.h.opt.window || c.byeHere && int32(p.seq-c.byeSeq) > 0 {
		return
	}
	reason, of := c.accept(p)
	switch {
	case reason == refuseNow:
		c.dupOwed = true
		return
	case reason != 0:
		c.dupOwed = c.dupOwed || reason == 4
		n := &packet{kind: kNack, tag: reason, conn: c.far, seq: p.seq, payload: of}
		c.post(0, n)
		c.law.refuse(p.seq)
		return
	}
	c.last, c.lastNo, c.lastCh = p.seq, p.number, ch
	c.here[p.seq] = true
	delete(c.parts, p.seq)
	if int32(p.seq+1-c.top) > 0 {
		c.top = p.seq + 1
	}
	for c.here[c.expected] || c.h.opt.liar && c.expected != c.top {
		delete(c.here, c.expected)
		c.expected++
	}
	c.loneCame(p)
	c.owed = true
	if c.byeHere && c.expected == c.byeSeq+1 {
		c.state, c.linger, c.err = lingering, c.h.now.Add(150*time.Millisecond), c.byeErr
		c.failAll(errClosed)
		c.flight = map[uint32]*segment{}
	}
}

// refuseNow stands for a refusal that is answered by an Ack only.
const refuseNow = 0xFF

// accept accepts a packet, or returns a reason of section 8 for a refusal, with the refused record
// of a Pack for the payload of the Nack.
func (c *conn) accept(p *packet) (reason byte, of []byte) {
	if id, ok := c.refusals[p.seq]; ok && (p.kind == kFrag || p.kind == kPack) {
		delete(c.refusals, p.seq)
		c.drop(id)
	}
	switch {
	case p.kind == kPack:
		return c.acceptPack(p)
	case p.op != nil || p.put != nil:
		return c.acceptRemote(p), nil
	case p.kind == kFrag && p.tag == tagVoid:
		return 0, nil
	case p.kind == kFrag && p.tag == tagBye:
		c.byeHere, c.byeSeq = true, p.seq
		if len(p.payload) == 2 {
			c.byeErr = ended{le.Uint16(p.payload)}
		}
		return 0, nil
	}
	if p.kind == kChunk && c.dropped[p.chunk.fragID] {
		return 0, nil
	}
	if c.h.handlers[p.tag] == nil {
		if p.kind == kChunk {
			c.refusals[p.seq] = p.chunk.fragID
		}
		return 2, nil
	}
	if p.kind == kFrag {
		c.deliver(p.tag, p.payload)
		return 0, nil
	}
	if reason = c.chunkFits(p.tag, p.chunk, len(p.payload), nil); reason == 0 {
		c.takeChunk(p.tag, p.chunk, p.payload)
	}
	return reason, nil
}

func (c *conn) acceptPack(p *packet) (reason byte, of []byte) {
	for _, r := range p.records {
		if c.h.handlers[r.tag] == nil && (r.piece == nil || !c.dropped[r.piece.fragID]) {
			for _, x := range p.records {
				if x.piece != nil && x.tag == r.tag {
					c.refusals[p.seq] = x.piece.fragID
				}
			}
			return 3, []byte{r.tag}
		}
	}
	var ends *chunk
	for _, r := range p.records {
		if r.piece == nil || c.dropped[r.piece.fragID] {
			continue
		}
		if reason = c.chunkFits(r.tag, r.piece, len(r.data), ends); reason != 0 {
			return reason, nil
		}
		ends = r.piece
	}
	c.inPacks++
	for _, r := range p.records {
		switch {
		case r.piece == nil:
			c.deliver(r.tag, r.data)
		case !c.dropped[r.piece.fragID]:
			c.inPieces++
			c.takeChunk(r.tag, r.piece, r.data)
		}
	}
	return 0, nil
}

// chunkFits checks a chunk against its fragment. ends is a fragment that the same Pack may end.
func (c *conn) chunkFits(tag byte, x *chunk, n int, ends *chunk) byte {
	if x.size > c.h.opt.fragmentMax {
		c.h.wrong("fragment %d has %d bytes", x.fragID, x.size)
		return refuseNow
	}
	a := c.build[x.fragID]
	if a == nil {
		other, taken := c.slots[x.fragID%2048]
		if taken && (ends == nil || other != ends.fragID) || c.full {
			return 4
		}
		return 0
	}
	if a.tag != tag || a.chunk.size != x.size || a.chunk.first != x.first ||
		a.chunk.each != x.each || a.got[x.offset] {
		c.h.wrong("chunk %+v of %d bytes contradicts %+v", *x, n, a.chunk)
		return refuseNow
	}
	return 0
}

func (c *conn) takeChunk(tag byte, x *chunk, b []byte) {
	a := c.build[x.fragID]
	if a == nil {
		a = &assembly{tag: tag, chunk: *x, buf: make([]byte, x.size), got: map[uint32]bool{}}
		c.build[x.fragID], c.slots[x.fragID%2048] = a, x.fragID
	}
	copy(a.buf[x.offset:], b)
	a.got[x.offset] = true
	if a.n += len(b); a.n == len(a.buf) {
		delete(c.build, x.fragID)
		delete(c.slots, x.fragID%2048)
		c.deliver(tag, a.buf)
	}
}

// drop discards a fragment that its sender has aborted.
func (c *conn) drop(id uint32) {
	c.dropped[id] = true
	delete(c.build, id)
	delete(c.slots, id%2048)
}

func (c *conn) deliver(tag byte, b []byte) {
	c.delivered++
	c.h.handlers[tag](c, bytes.Clone(b))
}

// limitOf returns the last packet number that this side grants.
func (c *conn) limitOf() uint32 { return c.expected - 1 + uint32(c.h.opt.credit) }

// putAck adds the present acknowledgement to a packet.
func (c *conn) putAck(p *packet) {
	p.flags |= fAck
	p.ack, p.credit, p.creditBytes = c.expected-1, c.h.opt.credit, c.h.opt.bytes
	c.acked, c.law.told = true, p.ack
	for n := range c.law.bytes { // also those that a Sack tells of, and more
		if int32(n-c.expected) < 0 || c.here[n] {
			delete(c.law.bytes, n)
		}
	}
	if to := c.limitOf(); int32(to-c.law.granted) > 0 {
		c.law.granted = to
	}
}

// postAck sends a separate Ack.
func (c *conn) postAck(dup byte) {
	c.postAckAs(&packet{kind: kAck, flags: dup, conn: c.far})
}

func (c *conn) postAckAs(p *packet) {
	c.hasten()
	c.putAck(p)
	if c.features&featSack != 0 {
		p.flags |= fSack
		p.sack = &sack{
			copies: c.copies, last: c.last, lastNumber: c.lastNo, lastData: byte(c.lastCh),
			ranges: c.ranges((c.command - 32 - 24) / 4),
		}
	}
	c.owed, c.dupOwed, c.owedAt = false, false, time.Time{}
	c.post(0, p)
}

// askedFor checks an Ack with the flag Ask by section 6, and returns false for an invalid packet.
func (c *conn) askedFor(seq uint32) bool {
	if c.features&featAsk == 0 {
		c.h.wrong("an Ack asks for one, which was not agreed")
		return false
	}
	c.askedAcks++
	c.urgentTo, c.urgent = seq, true
	return true
}

// askAck asks the peer to acknowledge all sent packets at once.
func (c *conn) askAck() {
	p := &packet{kind: kAck, flags: fAsk, conn: c.far, seq: c.next - 1}
	c.postAckAs(p)
}

func (c *conn) ranges(most int) (rs [][2]uint16) {
	for at := c.expected + 1; int32(c.top-at) > 0 && len(rs) < min(most, 256); at++ {
		if !c.here[at] {
			continue
		}
		from := at
		for c.here[at+1] {
			at++
		}
		rs = append(rs, [2]uint16{uint16(from - c.expected - 1), uint16(at - from)})
	}
	return slices.Clip(rs)
}

// progress performs the timed actions of a connection.
func (c *conn) progress(ticked bool) {
	if ticked {
		c.shake()
		switch {
		case c.state == connected && c.relies:
			c.tickCounted()
		case c.state == connected:
			c.resend()
			c.sizeTick()
		}
		if c.state == lingering && c.h.now.After(c.linger) {
			c.end(c.err)
		}
	}
	c.pump()
	if c.owedAt.IsZero() && c.owed {
		c.owedAt = c.h.now
	}
	now := c.urgent && int32(c.urgentTo-c.expected) < 0
	if now {
		c.urgent = false
	}
	if c.owed && !c.dupOwed && !now && c.h.now.Sub(c.owedAt) < c.ackWait() {
		return
	}
	if c.relies {
		if c.state == connected && (c.owed || c.confirmed && !c.greeted) {
			c.greeted = c.greeted || c.confirmed
			c.postAckCounted()
		}
		return
	}
	if (c.owed || c.dupOwed) && (c.state == connected || c.state == lingering) {
		dup := byte(fDup)
		if c.owed && c.state == connected {
			dup = 0
		}
		c.postAck(dup)
	}
}
