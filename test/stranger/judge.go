package stranger

import (
	"bytes"
	"hash/maphash"
)

// law is the state of a connection's judge.
type law struct {
	numbers  [2]uint32
	any      [2]bool
	used     [2]map[uint32]bool
	granted  uint32         // the last sequence number that was granted
	told     uint32         // the ack that was sent last
	bytes    map[uint32]int // of the packets that no acknowledgement sent has told of
	bytesMax int            // the most that was bytes, for tests
	copies   map[uint32]uint64
	times    map[uint32]int // copies
	commands map[uint32]int // those by the command channel
	fragID   uint32
	anyFrag  bool
	cutting  *chunk          // a fragment whose chunks are not all sent
	unseen   bool            // some of them came in another way: refused, in Parts
	judged   uint32          // the latest of those whose order was judged
	judging  bool            // there is one
	hole     bool            // one before it is not here: it may be withheld
	replaced map[uint32]bool // refused, so that another packet may come
}

// refuse records that this side sends a Nack.
func (l *law) refuse(seq uint32) {
	if l.replaced == nil {
		l.replaced = map[uint32]bool{}
	}
	l.replaced[seq], l.unseen = true, true
}

var seed = maphash.MakeSeed()

// judge checks a packet of the other side, before any packet is dropped, for violations of the
// protocol document.
func (h *host) judge(d *datagram, p *packet) {
	if p.kind == kHello && p.hello.proven>>d.ch&1 == 0 {
		padded := *p.hello
		if padded.pad(); len(padded.ext) != len(p.hello.ext) {
			h.wrong("channel %d: a Hello of %d bytes is shorter than the answers to it", d.ch, len(d.b))
		}
	}
	c := h.conns[p.conn]
	if c == nil || c.state != connected {
		return
	}
	switch p.kind {
	case kHello, kHelloAck, kRetry, kReject:
		return
	}
	l := &c.law
	l.unseen = l.unseen || p.kind == kPart
	if l.used[d.ch] == nil {
		l.used[d.ch] = map[uint32]bool{}
	}
	switch {
	case l.used[d.ch][p.number]:
		h.wrong("channel %d: number %d is used twice", d.ch, p.number)
	case l.any[d.ch] && int32(p.number-l.numbers[d.ch]) <= 0 && !l.unseen: // Parts overtake
		h.wrong("channel %d: number %d behind %d: kind %d, %d bytes, seq %d", d.ch, p.number,
			l.numbers[d.ch], p.kind, len(d.b), p.seq)
	}
	l.used[d.ch][p.number] = true
	l.numbers[d.ch], l.any[d.ch] = p.number, true
	if c.relies {
		c.judgeCounted(d, p)
		return
	}
	if p.flags&fAck != 0 && p.creditBytes == 0 {
		h.wrong("credits in bytes: 0")
	}
	most := c.mtu
	if d.ch == 0 {
		most = c.command
	}
	if p.kind != kPing && len(d.b) > most {
		h.wrong("channel %d: kind %d has %d bytes", d.ch, p.kind, len(d.b))
	}
	if (p.kind == kAck || p.kind == kNack) && d.ch != 0 {
		h.wrong("kind %d on the data channel", p.kind)
	}
	if p.kind == kFrag || p.kind == kChunk || p.kind == kPack {
		if p.kind != kFrag || p.tag != tagBye || len(p.payload) == 0 || p.payload[1]&0x80 != 0 {
			c.judgeSequenced(d, p)
		}
	}
}

// judgeBytes checks that the sender's unacknowledged bytes were less than the granted bytes when
// the packet was sent. Only bytes that this side has acknowledged count as acknowledged.
func (c *conn) judgeBytes(d *datagram, p *packet) {
	l := &c.law
	if _, again := l.copies[p.seq]; again || p.seq-c.expected > c.h.opt.window {
		return
	}
	out := 0
	for seq, n := range l.bytes {
		if int32(seq-p.seq) < 0 { // those behind have overtaken it
			out += n
		}
	}
	if most := int(c.h.opt.bytes) << 12; c.acked && most != 0xFFFF<<12 && out >= most {
		c.h.wrong("packet %d is sent beside %d bytes, and granted are %d", p.seq, out, most)
	}
	if l.bytes == nil {
		l.bytes = map[uint32]int{}
	}
	l.bytes[p.seq] = len(d.b)
	l.bytesMax = max(l.bytesMax, out+len(d.b))
}

func (c *conn) judgeSequenced(d *datagram, p *packet) {
	l, h := &c.law, c.h
	if int32(p.seq-l.granted) > 0 {
		h.wrong("packet %d, and granted was up to %d", p.seq, l.granted)
	}
	c.judgeBytes(d, p)
	if l.copies == nil {
		l.copies, l.times, l.commands = map[uint32]uint64{}, map[uint32]int{}, map[uint32]int{}
	}
	var body bytes.Buffer
	body.Write([]byte{p.kind, p.flags &^ (fAck | fDup | fLater), p.tag})
	body.Write(d.b[32:])
	sum := maphash.Bytes(seed, body.Bytes())
	was, again := l.copies[p.seq]
	// A copy on the data channel can be read before the original on the command channel.
	c.judgeLone(p, again && (d.ch != 0 || l.commands[p.seq] > 0))
	l.times[p.seq]++
	if d.ch == 0 {
		l.commands[p.seq]++
	}
	l.copies[p.seq] = sum
	if l.commands[p.seq] > 1 { // which channel is read first says nothing
		h.wrong("packet %d is sent again on the command channel", p.seq)
	}
	if again && was != sum && !l.replaced[p.seq] {
		h.wrong("packet %d is another one when sent again: %x", p.seq, d.b[:min(80, len(d.b))])
	}
	if again {
		return
	}
	if d.ch != 1 || !l.follows(p, c.peerFirst) {
		return
	}
	if p.kind == kChunk {
		c.judgeOrder(p.chunk, len(p.payload))
	}
	for _, r := range p.records {
		if r.piece != nil {
			c.judgeOrder(r.piece, len(r.data))
		}
	}
}

// follows reports whether a packet allows a check of the order of chunks, which is not so after a
// missing packet, or for a packet that is late because it may have been held back. The same applies
// to the first packet, because earlier ones may have been read before the Hello, which comes on the
// other channel.
func (l *law) follows(p *packet, first uint32) bool {
	if !l.judging {
		l.judged = first - 1
	}
	if int32(p.seq-l.judged) <= 0 {
		return false
	}
	for seq := l.judged + 1; seq != p.seq; seq++ {
		if l.times[seq] == 0 {
			l.hole = true
		}
	}
	l.judged, l.judging = p.seq, true
	return true
}

// judgeOrder checks that all chunks of a fragment come before the next fragment, whose id is larger
// by one.
func (c *conn) judgeOrder(x *chunk, n int) {
	l := &c.law
	if x.offset == 0 {
		if l.anyFrag && int32(x.fragID-l.fragID) <= 0 {
			c.h.wrong("fragment %d behind %d", x.fragID, l.fragID)
		}
		if l.cutting != nil && !l.unseen && !l.hole {
			c.h.wrong("fragment %d begins within %d", x.fragID, l.cutting.fragID)
		}
	} else if !l.unseen && !l.hole && (l.cutting == nil || l.cutting.fragID != x.fragID) {
		c.h.wrong("chunk at %d of fragment %d comes alone", x.offset, x.fragID)
	}
	l.fragID, l.anyFrag, l.cutting, l.hole = x.fragID, true, x, false
	if uint64(x.offset)+uint64(n) == uint64(x.size) {
		l.cutting = nil
	}
}

// copiesOf returns how many copies of a packet have arrived.
func (l *law) copiesOf(seq uint32) int { return l.times[seq] }
