package conn

import (
	"io"
	"net"
	"os"
	"slices"
)

// incoming is the direction to this side. Its bytes are those of a ring:
//
//	read            next               early[0]                 told
//	 |--- unread ----|       gap       |---------|     gap       |
type incoming struct {
	ring  []byte // byte i of the stream is at i modulo its length, which grows
	read  uint64 // bytes that were read
	next  uint64 // that came without a gap
	told  uint64 // the limit that the other side knows
	early []span // that came behind gaps, in order
	growth
	end     uint64 // of the stream, if it is known
	ended   bool   // it is known
	deaf    bool   // nobody reads any more
	readers []*request
	rd      deadline
}

// span is a range of a stream's bytes.
type span struct{ from, to uint64 }

const (
	// inFlightMax bounds the data fragments of a Conn that one side has in flight.
	inFlightMax = 64
	// earlyMax bounds the gaps that such fragments can make: acknowledged ones may lie behind
	// unacknowledged ones.
	earlyMax = 2 * inFlightMax
	// ringBytesMin is the least size of the ring of received bytes.
	ringBytesMin = 4 << 10
)

// onData stores received bytes of the stream. It returns false if they exceed the window, or have
// come before.
func (c *Conn) onData(at uint64, data []byte) bool {
	to := at + uint64(len(data))
	if to > c.told || at < c.next || c.ended && to > c.end {
		return false
	}
	c.mayGrow(to)
	c.n.company.note(&c.growth, len(data))
	if at > c.next {
		if !c.addEarly(span{at, to}) {
			return false
		}
		c.store(at, data)
		return true
	}
	if len(c.early) > 0 && to > c.early[0].from {
		return false
	}
	if len(c.readers) > 0 && c.read == c.next && len(c.early) == 0 { // as it mostly is
		q := c.readers[0]
		q.n = copy(q.buf, data)
		c.read += uint64(q.n)
		c.next, at, data = c.read, c.read, data[q.n:]
		c.readers = pop(c.readers)
		q.w.Wake(nil)
	}
	c.store(at, data)
	c.next = to
	for len(c.early) > 0 && c.early[0].from == c.next {
		c.next = c.early[0].to
		c.early = slices.Delete(c.early, 0, 1)
	}
	c.serveReaders()
	return true
}

// addEarly notes a part behind a gap. It returns false if some of its bytes have come before, or if
// there are too many such parts.
func (c *Conn) addEarly(s span) bool {
	i, _ := slices.BinarySearchFunc(c.early, s.from, func(e span, from uint64) int {
		if e.to <= from {
			return -1
		}
		return 1
	})
	if i < len(c.early) && c.early[i].from < s.to {
		return false
	}
	before := i > 0 && c.early[i-1].to == s.from
	behind := i < len(c.early) && c.early[i].from == s.to
	switch {
	case before && behind:
		c.early[i-1].to = c.early[i].to
		c.early = slices.Delete(c.early, i, i+1)
	case before:
		c.early[i-1].to = s.to
	case behind:
		c.early[i].from = s.from
	case len(c.early) >= earlyMax:
		return false
	default:
		c.early = slices.Insert(c.early, i, s)
	}
	return true
}

// store copies bytes into the ring, which grows as needed for received bytes.
func (c *Conn) store(at uint64, data []byte) {
	if len(data) == 0 {
		return
	}
	if need := int(at - c.read + uint64(len(data))); need > len(c.ring) {
		c.resize(min(max(2*len(c.ring), need, ringBytesMin), int(c.window)))
	}
	for len(data) > 0 {
		n := copy(c.ring[at%uint64(len(c.ring)):], data)
		at, data = at+uint64(n), data[n:]
	}
}

// resize changes the size of the ring, to one that holds its bytes.
func (c *Conn) resize(bytes int) {
	other := make([]byte, bytes)
	end := c.read + uint64(min(len(c.ring), bytes)) // with what has come early
	for i := c.read; i < end; {
		part := c.ring[i%uint64(len(c.ring)):]
		part = part[:min(uint64(len(part)), end-i)]
		for len(part) > 0 {
			n := copy(other[i%uint64(bytes):], part)
			i, part = i+uint64(n), part[n:]
		}
	}
	c.ring = other
}

// serveReaders gives received bytes to waiting Reads.
func (c *Conn) serveReaders() {
	for len(c.readers) > 0 {
		q := c.readers[0]
		err := c.mayRead()
		if err == nil && c.read == c.next && len(q.buf) > 0 {
			return
		}
		if err == nil {
			for q.n < len(q.buf) && c.read < c.next {
				part := c.ring[c.read%uint64(len(c.ring)):]
				part = part[:min(uint64(len(part)), c.next-c.read)]
				n := copy(q.buf[q.n:], part)
				q.n += n
				c.read += uint64(n)
			}
		}
		c.readers = pop(c.readers)
		q.w.Wake(err)
	}
	if c.err != nil && (c.deaf || c.read == c.next) {
		c.forget()
	}
}

// mayRead returns the error of a Read when no more bytes will come, else nil.
func (c *Conn) mayRead() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.rd.passed:
		return os.ErrDeadlineExceeded
	case c.deaf:
		return io.EOF
	case c.read < c.next:
		return nil
	case c.ended && c.read == c.end:
		return io.EOF
	}
	return c.err
}

// onFin processes the peer's end of the stream.
func (c *Conn) onFin(end uint64) bool {
	last := c.next
	if len(c.early) > 0 {
		last = c.early[len(c.early)-1].to
	}
	if c.ended || end < last || end > c.told {
		return false
	}
	c.end, c.ended = end, true
	c.serveReaders()
	return true
}

// closeRead drops unread and future bytes.
func (c *Conn) closeRead() {
	if c.deaf {
		return
	}
	if !c.whole() {
		c.due |= dueStop
	}
	c.deaf, c.ring, c.early = true, nil, nil
	c.serveReaders()
}

// whole says whether all bytes of the stream have come.
func (c *Conn) whole() bool { return c.ended && c.next == c.end }

// credit returns the limit for the peer, and whether it is due to be sent.
func (c *Conn) credit() (limit uint64, due bool) {
	if c.deaf || c.ended {
		return 0, false
	}
	if !c.n.company.many() {
		c.grow()
	} else if !c.shrink() {
		return 0, false
	}
	limit = c.read + c.window
	return limit, limit-c.told >= c.window/4
}

// pop removes the first request of a queue.
func pop(q []*request) []*request {
	q[0] = nil
	if len(q) == 1 {
		return q[:0]
	}
	return q[1:]
}
