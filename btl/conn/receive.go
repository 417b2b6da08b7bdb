package conn

import (
	"io"
	"net"
	"os"
)

// The type "incoming" is the state of a Conn for the direction from the peer to this side. The
// received bytes are stored in a ring buffer or, while earlier bytes are missing, in copies of
// messages (see early.go):
//
//	read            next               early[0]                 told
//	 |=== unread ====|       gap       |=========|     gap       |
type incoming struct {
	ring  []byte // byte i of the stream is at i modulo len(ring)
	read  uint64 // number of bytes read
	next  uint64 // number of bytes received without a gap
	told  uint64 // latest limit sent to the peer
	early []span // ranges received after gaps, in order
	ahead uint64 // number of bytes of early
	apart int    // memory of the copied messages of early
	held  int    // memory of the ring buffer and the copies that Node.held counts
	growth
	end     uint64 // length of the stream, once known
	ended   bool   // end is known
	deaf    bool   // CloseRead was called
	readers []*request
	rd      deadline
}

const (
	// inFlightMax is the maximum number of data fragments of a Conn that one side has in flight.
	inFlightMax = 64
	// earlyMax is the maximum number of separate byte ranges that a Conn stores behind gaps.
	earlyMax = 2 * inFlightMax
	// ringBytesMin is the minimum size of the ring buffer.
	ringBytesMin = 4 << 10
)

// onData stores received bytes of the stream and returns true, or returns false if some of the
// bytes exceed the window or were received before.
func (c *Conn) onData(at uint64, data []byte) bool {
	to := at + uint64(len(data))
	if to > c.told || at < c.next || c.ended && to > c.end {
		return false
	}
	c.mayGrow(to)
	c.n.company.note(c.host, &c.growth, len(data))
	if at > c.next {
		return c.onEarly(at, data)
	}
	if len(c.early) > 0 && to > c.early[0].from {
		return false
	}
	if len(c.readers) > 0 && c.read == c.next && len(c.early) == 0 { // the common case
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
		c.reachEarly()
	}
	c.serveReaders()
	return true
}

func (c *Conn) store(at uint64, data []byte) {
	if len(data) == 0 {
		return
	}
	if need := int(at - c.read + uint64(len(data))); need > len(c.ring) {
		c.enlarge(need)
	}
	for len(data) > 0 {
		n := copy(c.ring[at%uint64(len(c.ring)):], data)
		at, data = at+uint64(n), data[n:]
	}
}

// The method "enlarge" at least doubles the size of the ring buffer, and makes it at least the
// argument "need". If the ring buffer and the copies would have more bytes than the window
// together, the ring buffer gets the size of the window, and replaces the copies.
func (c *Conn) enlarge(need int) {
	bytes := max(2*len(c.ring), need, ringBytesMin)
	if bytes+c.apart > int(c.window) {
		bytes = int(c.window)
	}
	c.resize(bytes)
}

// The method "resize" changes the size of the ring buffer. The new size must suffice for all bytes
// in the ring buffer. A ring buffer of the size of the window takes in all copies.
func (c *Conn) resize(bytes int) {
	other := make([]byte, bytes)
	end := c.read + uint64(min(len(c.ring), bytes)) // includes the bytes after gaps
	for i := c.read; i < end; {
		part := c.ring[i%uint64(len(c.ring)):]
		part = part[:min(uint64(len(part)), end-i)]
		for len(part) > 0 {
			n := copy(other[i%uint64(bytes):], part)
			i, part = i+uint64(n), part[n:]
		}
	}
	c.ring = other
	if bytes == int(c.window) && c.apart > 0 {
		for i := range c.early {
			l := c.early[i].copies
			c.early[i].copies = copyList{}
			c.takeIn(l)
		}
	}
	c.count(bytes + c.apart)
}

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

// mayRead returns nil if a Read can get bytes, at once or later, and otherwise the error that the
// Read must return.
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

// onFin handles the peer's message that the stream ends at the offset "end", and returns true, or
// returns false if this offset contradicts earlier messages.
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

// closeRead performs CloseRead on the goroutine that drives the module.
func (c *Conn) closeRead() {
	if c.deaf {
		return
	}
	if !c.whole() {
		c.due |= dueStop
	}
	c.deaf, c.ring = true, nil
	c.dropEarly()
	c.count(0)
	c.serveReaders()
}

// The method "whole" reports whether all bytes of the stream have been received.
func (c *Conn) whole() bool { return c.ended && c.next == c.end }

// The method "credit" returns the new window limit for the peer, and reports whether the limit must
// be sent to the peer.
func (c *Conn) credit() (limit uint64, due bool) {
	if c.deaf || c.ended {
		return 0, false
	}
	if !c.n.company.many(c.host, &c.growth) {
		c.grow()
	} else if !c.shrink() {
		return 0, false
	}
	limit = c.read + c.window
	return limit, limit-c.told >= c.window/4
}

func pop(q []*request) []*request {
	q[0] = nil
	if len(q) == 1 {
		return q[:0]
	}
	return q[1:]
}
