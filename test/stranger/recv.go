package stranger

import (
	"slices"
	"time"
)

const (
	ackEvery  = 32   // packets at most without an Ack
	slots     = 2048 // unfinished fragments
	memoryLen = 8192 // numbers below the window whose packets are remembered, for the checks
)

// receiver is the incoming direction.
type receiver struct {
	expected uint32              // next number in order
	here     map[uint32]bool     // numbers behind a gap
	seen     map[uint32][]uint64 // checksums that the packet with that number may have
	chunkOf  map[uint32][]uint32 // fragIDs of the chunks behind a gap
	lastID   uint32              // fragID of the last chunk in order
	anyID    bool
	parts    map[uint32]*assembly
	refused  map[uint32]uint32 // fragID of the chunks that were refused, by number
	failed   map[uint32]uint32 // number of a Void in such a one's place, by fragID
	bye      bool              // a Bye is here
	byeSeq   uint32

	granted  uint32 // last number allowed
	due      bool   // an Ack is due at ackAt
	ackAt    time.Time
	news     int // packets accepted since the last Ack
	holdAcks bool
	taken    int // packets accepted
}

type assembly struct {
	tag    uint8
	first  uint16 // the grid
	grid   uint16
	bytes  []byte
	chunks map[uint32]bool // by offset
	got    int
}

func (r *receiver) initReceiver(first uint32) {
	r.expected, r.granted = first, first // the Hello's one credit
	r.here, r.seen = map[uint32]bool{}, map[uint32][]uint64{}
	r.chunkOf, r.parts = map[uint32][]uint32{}, map[uint32]*assembly{}
	r.refused, r.failed = map[uint32]uint32{}, map[uint32]uint32{}
}

// sequenced takes a Frag, Chunk, Pack, Ack or Nack.
func (c *Conn) sequenced(pkt *Packet) {
	const ordered = 0x8000 // codes of a Bye from here on, and none, end the connection in order
	if pkt.Kind == kindFrag && pkt.Tag == tagBye && len(pkt.Payload) == 2 &&
		le.Uint16(pkt.Payload) < ordered {
		if ahead := int32(pkt.Seq - c.expected); ahead >= 0 {
			c.end(ErrPeerClosed)
		}
		return
	}
	if !c.acked(pkt) {
		return
	}
	switch pkt.Kind {
	case kindNack:
		c.nacked(pkt)
	case kindFrag, kindChunk, kindPack:
		c.number(pkt)
	}
}

// number sorts a packet by its sequence number.
func (c *Conn) number(pkt *Packet) {
	if before(c.granted, pkt.Seq) {
		c.p.breachf("number %d without credit, allowed are %d", pkt.Seq-c.expected,
			int32(c.granted-c.expected))
	}
	c.checkSame(pkt)
	switch {
	case before(pkt.Seq, c.expected) || c.here[pkt.Seq]:
		c.p.counts["duplicate"]++
		c.ackNow()
	case c.state == ended:
	case pkt.Seq-c.expected >= c.p.cfg.WindowPackets:
		c.p.breachf("number %d is above the window", pkt.Seq-c.expected)
	case c.bye && before(c.byeSeq, pkt.Seq):
		c.p.breachf("a packet behind the Bye")
	case c.accept(pkt):
		c.accepted(pkt)
	}
}

// isOld says whether a packet is no news, so that its acknowledgement is the one of before.
func (c *Conn) isOld(pkt *Packet) bool {
	return pkt.numbered() &&
		(pkt.Seq-c.expected >= c.p.cfg.WindowPackets || c.here[pkt.Seq])
}

// checkSame notes a packet that differs from the one that had the number before.
func (c *Conn) checkSame(pkt *Packet) {
	if pkt.Kind == kindFrag && pkt.Tag == tagVoid {
		return
	}
	old, now := c.seen[pkt.Seq], sum(pkt)
	if len(old) > 0 && !slices.Contains(old, now) {
		c.p.breachf("number %d was another packet before", pkt.Seq-c.expected)
	}
	if len(old) == 0 {
		c.seen[pkt.Seq] = []uint64{now}
	}
}

// accept delivers a packet or refuses it; a refused one counts as not received.
func (c *Conn) accept(pkt *Packet) bool {
	reason := uint8(0)
	switch {
	case pkt.Flags&flagPut != 0:
		region, ok := c.p.regions[pkt.Handle]
		n := uint64(len(pkt.Payload))
		if !ok || pkt.PutOffset > uint64(len(region)) || n > uint64(len(region))-pkt.PutOffset {
			reason = nackAccess
		} else {
			copy(region[pkt.PutOffset:], pkt.Payload)
		}
	case pkt.Kind == kindFrag && pkt.Tag == tagBye:
		c.bye, c.byeSeq = true, pkt.Seq
	case pkt.Kind == kindFrag && pkt.Tag == tagVoid:
		c.p.counts["void"]++
		if id, ok := c.refused[pkt.Seq]; ok {
			delete(c.refused, pkt.Seq)
			delete(c.parts, id)
			c.failed[id] = pkt.Seq
		}
	case pkt.Kind == kindPack:
		return c.acceptPack(pkt)
	case c.p.cfg.Accept != nil && !c.p.cfg.Accept(pkt.Tag):
		reason = nackNoHandler
		if pkt.Kind == kindChunk {
			c.refused[pkt.Seq] = pkt.FragID
		}
	case pkt.Kind == kindFrag:
		c.deliver(pkt.Tag, pkt.Payload)
	default:
		return c.chunk(pkt)
	}
	if reason != 0 {
		nack := &Packet{Kind: kindNack, Tag: reason, Conn: c.peerTag, Seq: pkt.Seq}
		c.piggyback(nack)
		c.p.send(command, c.addrs[command], nack)
	}
	return reason == 0
}

func (c *Conn) deliver(tag uint8, message []byte) {
	c.p.counts["delivered"]++
	if c.p.cfg.OnMessage != nil {
		c.p.cfg.OnMessage(c, tag, message)
	}
}

// chunk puts a chunk to the others of its fragment.
func (c *Conn) chunk(pkt *Packet) bool {
	if void, ok := c.failed[pkt.FragID]; ok && !before(void+c.p.cfg.WindowPackets, c.expected) {
		return true // and thrown away
	}
	if !c.fits(pkt) {
		return false
	}
	a := c.parts[pkt.FragID]
	if a == nil {
		a = &assembly{tag: pkt.Tag, first: pkt.First, grid: pkt.Grid}
		a.bytes, a.chunks = make([]byte, pkt.Size), map[uint32]bool{}
		c.parts[pkt.FragID] = a
	}
	a.chunks[pkt.Offset] = true
	a.got += copy(a.bytes[pkt.Offset:], pkt.Payload)
	if a.got == len(a.bytes) {
		delete(c.parts, pkt.FragID)
		c.deliver(a.tag, a.bytes)
	}
	return true
}

// fits says whether a chunk has its place in its fragment, or may begin it.
func (c *Conn) fits(pkt *Packet) bool {
	a := c.parts[pkt.FragID]
	if a == nil {
		if pkt.Size > c.p.cfg.FragmentBytesMax || len(c.parts) >= slots {
			c.p.breachf("fragment of %d bytes, beside %d others", pkt.Size, len(c.parts))
			return false
		}
		return true
	}
	if pkt.First != a.first || pkt.Grid != a.grid || pkt.Tag != a.tag ||
		pkt.Size != uint32(len(a.bytes)) || a.chunks[pkt.Offset] {
		c.p.breachf("chunk at %d of %d, %d bytes", pkt.Offset, pkt.Size, len(pkt.Payload))
		return false
	}
	return true
}

// accepted moves the window, and has the packet acknowledged.
func (c *Conn) accepted(pkt *Packet) {
	c.taken++
	c.here[pkt.Seq] = true
	if pkt.Kind == kindChunk {
		c.chunkOf[pkt.Seq] = []uint32{pkt.FragID}
	}
	for _, r := range pkt.Records {
		if r.Piece != nil {
			c.chunkOf[pkt.Seq] = append(c.chunkOf[pkt.Seq], r.Piece.FragID)
		}
	}
	for c.here[c.expected] {
		for _, id := range c.chunkOf[c.expected] {
			if c.anyID && before(id, c.lastID) {
				c.p.breachf("a chunk of fragment %d behind those of %d", id, c.lastID)
			}
			c.lastID, c.anyID = id, true
		}
		delete(c.chunkOf, c.expected)
		delete(c.here, c.expected)
		delete(c.seen, c.expected-memoryLen)
		c.expected++
	}
	c.news++
	if !c.due {
		c.due, c.ackAt = true, time.Now().Add(c.p.cfg.AckDelay)
	}
	if c.bye && c.byeSeq == c.expected-1 {
		c.end(ErrPeerClosed)
		c.ackAt = time.Time{}
	}
	if c.news >= ackEvery || c.granted == pkt.Seq {
		c.ackAt = time.Time{}
	}
}

// ackNow asks for an Ack at once.
func (c *Conn) ackNow() {
	c.due, c.ackAt = true, time.Time{}
}

// acknowledge sends an Ack alone if it is time.
func (c *Conn) acknowledge(now time.Time) {
	if c.due && !now.Before(c.ackAt) && !c.holdAcks {
		pkt := &Packet{Kind: kindAck, Conn: c.peerTag}
		c.piggyback(pkt)
		c.p.send(command, c.addrs[command], pkt)
	}
}

// piggyback puts the acknowledgement on a packet if one is due.
func (c *Conn) piggyback(pkt *Packet) {
	if !c.due || c.holdAcks {
		return
	}
	pkt.Flags |= flagAck
	if c.news == 0 {
		pkt.Flags |= flagDup
	}
	pkt.Ack, pkt.Credit = c.expected-1, c.p.cfg.Credit
	pkt.CreditBytes = noByteBound
	if last := pkt.Ack + uint32(max(pkt.Credit, 1)); before(c.granted, last) {
		c.granted = last
	}
	c.due, c.news = false, 0
}

// HoldAcks withholds acknowledgements, and so credits, or sends them again.
func (c *Conn) HoldAcks(hold bool) { c.p.do(func() { c.holdAcks = hold }) }

// Taken is the number of packets accepted so far.
func (c *Conn) Taken() (n int) {
	c.p.do(func() { n = c.taken })
	return n
}
