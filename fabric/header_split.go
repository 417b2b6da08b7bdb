package fabric

import "gobtl/internal/bulk"

// HeaderSplit implements direct receive (Lander.Land) for providers that copy datagrams themselves.
// The zero HeaderSplit writes every datagram wholly to its packet buffer.
type HeaderSplit struct {
	mem       []byte
	headBytes int
	off       int // where the next datagram goes
}

// NewHeaderSplit returns the HeaderSplit for a call of Lander.Land with the arguments "mem" and
// "headBytes".
func NewHeaderSplit(mem []byte, headBytes int) HeaderSplit {
	return HeaderSplit{mem: mem, headBytes: max(headBytes, 0)}
}

// Copy writes the datagram "pkt" wholly to the buffer "buf", or splits "pkt" between "buf" and the
// direct-receive memory. If a datagram is longer than the buffer "buf", Copy truncates the
// datagram. Copy sets the fields Len, Landed and LandedOff of the Completion.
func (l *HeaderSplit) Copy(c *Completion, buf, pkt []byte) {
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
