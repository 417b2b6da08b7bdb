package stranger

// What section 17 of docs/protocol.md has beside the sequence: Pings, Pongs and Parts.

// inParts is a datagram of which some Parts have come.
type inParts struct {
	bytes []byte
	have  []bool // by blocks
	left  int
}

const (
	partBlock    = 64
	partHead     = 8
	partialsMost = 32
)

// aside takes a Ping, a Pong or a Part. It returns the packet to go on with, nil if there is none.
func (c *Conn) aside(channel int, pkt *Packet) *Packet {
	switch pkt.Kind {
	case kindPing:
		c.p.send(channel, c.addrs[channel], &Packet{
			Kind: kindPong, Conn: c.peerTag, Payload: pkt.Payload[:8:8],
		})
		return nil
	case kindPong:
		c.p.breachf("a Pong, and there was no Ping")
		return nil
	case kindPart:
		return c.part(pkt)
	}
	return pkt
}

// part puts a slice where it belongs, and returns the packet if it is whole.
func (c *Conn) part(pkt *Packet) *Packet {
	offset, total := int(le.Uint32(pkt.Payload)), int(le.Uint32(pkt.Payload[4:]))
	slice := pkt.Payload[partHead:]
	d := c.cut[pkt.Seq]
	if d == nil || len(d.bytes) != total {
		if c.cut == nil || len(c.cut) >= partialsMost {
			c.cut = map[uint32]*inParts{} // they are sent again
		}
		blocks := (total + partBlock - 1) / partBlock
		d = &inParts{bytes: make([]byte, total), have: make([]bool, blocks), left: blocks}
		c.cut[pkt.Seq] = d
	}
	copy(d.bytes[offset:], slice)
	for at := offset; at < offset+len(slice); at += partBlock {
		if !d.have[at/partBlock] {
			d.have[at/partBlock] = true
			d.left--
		}
	}
	if d.left > 0 {
		return nil
	}
	delete(c.cut, pkt.Seq)
	whole, err := Decode(d.bytes)
	if err != nil || !whole.numbered() || whole.Conn != pkt.Conn || whole.Seq != pkt.Seq {
		c.p.breachf("no packet in Parts: %v", err)
		return nil
	}
	return whole
}
