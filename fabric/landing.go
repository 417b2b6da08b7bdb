package fabric

import "gobtl/internal/bulk"

// Landing is the state of Lander.Land for providers that copy datagrams themselves. With the zero
// Landing, every datagram is written to its buffer.
type Landing struct {
	mem       []byte
	headBytes int
	off       int // where the next datagram goes
}

// NewLanding returns the state for the arguments of Land.
func NewLanding(mem []byte, headBytes int) Landing {
	return Landing{mem: mem, headBytes: max(headBytes, 0)}
}

// Copy writes the datagram pkt to buf, or splits pkt between buf and the direct-receive memory that
// Land has set. If a datagram is longer than buf, Copy truncates the datagram. Copy sets Len,
// Landed and LandedOff of c.
func (l *Landing) Copy(c *Completion, buf, pkt []byte) {
	c.Len, c.Landed, c.LandedOff = uint32(len(pkt)), 0, 0
	n := len(pkt) - l.headBytes
	if l.mem == nil || n <= 0 || n > len(l.mem)-l.off || l.headBytes > len(buf) {
		bulk.Copy(buf, pkt)
		return
	}
	copy(buf, pkt[:l.headBytes])
	bulk.Copy(l.mem[l.off:], pkt[l.headBytes:])
	c.Landed, c.LandedOff = uint32(n), uint32(l.off)
	l.off += n
}
