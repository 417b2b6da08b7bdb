package stranger

import (
	"fmt"
	"hash/fnv"
)

// Record is a message in a pack, or a piece of one: then Bytes is that part of it, and Piece says
// which, as a Chunk does.
type Record struct {
	Tag   uint8
	Bytes []byte
	Piece *Packet
}

const (
	recordBytes = 4  // of a record's header
	extraBytes  = 16 // of a piece's
)

// appendRecords writes the payload of a pack.
func appendRecords(b []byte, list []Record) []byte {
	for _, r := range list {
		if r.Piece != nil {
			b = append(b, r.Tag, 1)
			b = le.AppendUint16(b, uint16(extraBytes+len(r.Bytes)))
			b = r.Piece.appendChunk(b)
		} else {
			b = append(b, r.Tag, 0)
			b = le.AppendUint16(b, uint16(len(r.Bytes)))
		}
		b = append(b, r.Bytes...)
	}
	return b
}

// decodeRecords reads the payload of a pack.
func decodeRecords(b []byte) (list []Record, err error) {
	for len(b) > 0 || list == nil {
		if len(b) < recordBytes || b[0] >= 0xF0 || b[1] > 1 {
			return nil, fmt.Errorf("%w: record", errNoPacket)
		}
		end := recordBytes + int(le.Uint16(b[2:]))
		if end > len(b) {
			return nil, fmt.Errorf("%w: record's length", errNoPacket)
		}
		r := Record{Tag: b[0], Bytes: b[recordBytes:end]}
		if b[1] == 1 && !r.split() || b[1] == 1 && len(list) > 0 && end < len(b) {
			return nil, fmt.Errorf("%w: piece", errNoPacket)
		}
		list = append(list, r)
		b = b[end:]
	}
	begin, end := list[len(list)-1].Piece, list[0].Piece
	if begin != nil && end != nil && begin != end {
		if end.Offset+uint32(len(list[0].Bytes)) != end.Size || begin.Offset != 0 ||
			begin.FragID == end.FragID {
			return nil, fmt.Errorf("%w: pieces", errNoPacket)
		}
	}
	return list, nil
}

// split takes the extra of a piece from its bytes.
func (r *Record) split() bool {
	if len(r.Bytes) <= extraBytes {
		return false
	}
	p := &Packet{Kind: kindChunk, Tag: r.Tag}
	p.decodeChunk(r.Bytes)
	r.Piece, r.Bytes = p, r.Bytes[extraBytes:]
	p.Payload = r.Bytes
	return uint64(p.Offset)+uint64(len(r.Bytes)) <= uint64(p.Size) && p.onGrid(uint32(len(r.Bytes)))
}

// fitPieces says whether each piece of a pack can be put to its fragment.
func (c *Conn) fitPieces(list []Record) bool {
	for _, r := range list {
		if r.Piece != nil && !c.fits(r.Piece) {
			return false
		}
	}
	return true
}

// without returns the records that do not have the tag.
func without(list []Record, tag uint8) (rest []Record) {
	for _, r := range list {
		if r.Tag != tag {
			rest = append(rest, r)
		}
	}
	return rest
}

// StartPacked queues messages in packs, as many in each as fit, or max if that is less; the
// channels tell how each ended. The connection must be established, and each message fit into a
// pack.
func (c *Conn) StartPacked(list []Record, maxRecords int) []<-chan error {
	ends := make([]<-chan error, len(list))
	var pack *message
	size := 0
	c.p.do(func() {
		for i, r := range list {
			m := &message{tag: r.Tag, bytes: r.Bytes, done: make(chan error, 1)}
			ends[i] = m.done
			if c.state != established || c.closing {
				m.done <- ErrClosed
				continue
			}
			size += recordBytes + len(r.Bytes)
			if pack == nil || len(pack.packed) == maxRecords || size > c.sizes[data] {
				pack = &message{done: make(chan error, 1)}
				c.queue = append(c.queue, pack)
				size = headerBytes + recordBytes + len(r.Bytes)
			}
			pack.packed = append(pack.packed, m)
		}
	})
	return ends
}

// packPacket makes the packet of a pack.
func (m *message) packPacket() *Packet {
	m.whole = true
	pkt := &Packet{Kind: kindPack}
	for _, r := range m.packed {
		pkt.Records = append(pkt.Records, Record{Tag: r.tag, Bytes: r.bytes})
	}
	return pkt
}

// finish tells how a message, or each one of a pack, ended.
func (m *message) finish(err error) {
	m.done <- err
	for _, r := range m.packed {
		if err == nil {
			r.done <- r.failure
		} else {
			r.done <- err
		}
	}
}

// nackedRecord takes the refused records out of a pack.
func (c *Conn) nackedRecord(o *outgoing, pkt *Packet) {
	tag := pkt.Payload[0]
	switch {
	case o.msg.packed == nil:
		c.p.breachf("reason 3 for a packet that never was a pack")
		return
	case o.pkt.Kind != kindPack:
		return
	}
	rest := without(o.pkt.Records, tag)
	if len(rest) == len(o.pkt.Records) {
		return
	}
	for _, r := range o.msg.packed {
		if r.tag == tag {
			r.failure = ErrRefused
		}
	}
	next := &Packet{Kind: kindPack, Records: rest, Conn: c.peerTag, Seq: pkt.Seq}
	if len(rest) == 0 {
		next = &Packet{Kind: kindFrag, Tag: tagVoid, Conn: c.peerTag, Seq: pkt.Seq}
	}
	o.pkt = next
	c.again(o)
}

// acceptPack delivers the messages of a pack, or refuses all of them. What may come in its place
// then is a Void, or the same pack without those of the tag that was named.
func (c *Conn) acceptPack(pkt *Packet) bool {
	for _, r := range pkt.Records {
		if c.p.cfg.Accept == nil || c.p.cfg.Accept(r.Tag) {
			continue
		}
		rest := *pkt
		if rest.Records = without(pkt.Records, r.Tag); len(rest.Records) > 0 {
			c.seen[pkt.Seq] = append(c.seen[pkt.Seq], sum(&rest))
		}
		nack := &Packet{
			Kind: kindNack, Tag: nackRecord, Conn: c.peerTag, Seq: pkt.Seq, Payload: []byte{r.Tag},
		}
		c.piggyback(nack)
		c.p.send(command, c.addrs[command], nack)
		return false
	}
	if !c.fitPieces(pkt.Records) {
		return false
	}
	for _, r := range pkt.Records {
		c.p.counts["packed"]++
		if r.Piece == nil {
			c.deliver(r.Tag, r.Bytes)
		} else if !c.chunk(r.Piece) {
			return false
		}
	}
	return true
}

// sum is a checksum of what must be the same whenever a packet is sent again.
func sum(pkt *Packet) uint64 {
	same := *pkt
	same.Flags, same.Ack, same.Credit = pkt.Flags&flagPut, 0, 0
	same.Number, same.CreditBytes = 0, 0
	hash := fnv.New64a()
	_, _ = hash.Write(same.Encode(nil))
	return hash.Sum64()
}
