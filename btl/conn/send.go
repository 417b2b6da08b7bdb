package conn

import (
	"errors"
	"math"
	"net"
	"os"

	"gobtl/btl"
)

// The type "outgoing" is the state of a Conn for the direction from this side to the peer.
type outgoing struct {
	off      uint64 // number of bytes sent
	limit    uint64 // number of bytes that the peer's window allows
	inFlight int    // messages not acknowledged yet
	chunk    int    // maximum bytes of a message; 0: not known yet
	finished bool   // CloseWrite was called
	stopped  bool   // the peer has closed its reading side
	buffer   writeBuffer
	finSent  bool
	resets   bool // a reset message follows the acknowledgement of the open message
	sent     func(*btl.Fragment, error)
	writers  []*request
	wd       deadline
}

// chunkBytesMax is the maximum number of stream bytes in one message.
const chunkBytesMax = 64 << 10

type due uint8

const (
	dueOpen due = 1 << iota
	dueAccept
	dueFin
	dueStop
)

// The method "on" handles a received message for a Conn, and returns true, or returns false if the
// message violates the protocol.
func (c *Conn) on(h *head, rest []byte) bool {
	switch h.kind {
	case kindAccept:
		if !c.mine || c.accepted {
			return false
		}
		c.accepted, c.limit = true, max(c.limit, h.value)
		c.answered(nil)
	case kindRefuse:
		if !c.mine || c.accepted {
			return false
		}
		c.fail(h.status.err())
	case kindData:
		return c.deaf || c.onData(h.value, rest)
	case kindCredit:
		c.limit = max(c.limit, h.value)
	case kindFin:
		return c.deaf || c.onFin(h.value)
	case kindStop:
		c.stopped = true
		c.due &^= dueFin
		c.shutWrites()
		c.endWriters(ErrStopped)
	case kindReset:
		c.fail(ErrReset)
	case kindOpen: // arrive handles it
	}
	return true
}

// The method "answered" ends the pending Dial of a Conn.
func (c *Conn) answered(err error) {
	if c.dialing != nil {
		c.dialing.w.Wake(err)
		c.dialing = nil
	}
}

// The method "advance" sends a Conn's pending messages, until no send buffer is free. If Conns with
// the same peer already wait for send buffers, the Conn joins the end of their queue before it
// sends bytes of its stream. If both directions have ended, the method "advance" removes the Conn,
// unless the Conn has unread bytes or waits for Accept.
func (c *Conn) advance() {
	if c.waits || c.gone() {
		return
	}
	messages := math.MaxInt
	if c.peer.waiting.first != nil {
		messages = 0
	}
	if more, again := c.send(messages); more || again {
		c.peer.waiting.push(c)
	}
}

// The method "gone" reports whether the Conn was removed from the Node's tables.
func (c *Conn) gone() bool { return c.err != nil || c.n.conns[c.name] != c }

// The method "send" sends a Conn's pending control messages, and at most the given number of data
// messages. The result "more" of the method "send" reports whether the Conn still has data messages
// to send, and the result "again" reports whether the Conn must wait for a free send buffer.
func (c *Conn) send(messages int) (more, again bool) {
	err := c.sendDue(dueOpen, head{kind: kindOpen, value: c.told})
	if err == nil && c.accepted {
		more, err = c.sendAll(messages)
	}
	switch {
	case errors.Is(err, btl.ErrAgain):
		return more, true
	case err != nil:
		c.fail(err)
		return false, false
	case c.accepted && c.due == 0 && c.inFlight == 0 && (c.stopped || c.finSent) &&
		(c.deaf || c.whole() && c.read == c.next) && c.backlog == nil:
		c.n.remove(c)
		c.ring = nil
	}
	return more, false
}

// sendAll performs the method "send" for an established Conn.
func (c *Conn) sendAll(messages int) (more bool, err error) {
	if err := c.sendDue(dueAccept, head{kind: kindAccept, value: c.told}); err != nil {
		return false, err
	}
	if limit, due := c.credit(); due {
		if err := c.say(head{kind: kindCredit, value: limit}, nil); err != nil {
			return false, err
		}
		c.tell(limit)
	}
	buffered := c.buffer.unsent()
	for len(buffered) > 0 || len(c.writers) > 0 {
		if c.inFlight >= inFlightMax || c.off >= c.limit {
			break
		}
		if messages--; messages < 0 {
			return true, c.sendDue(dueStop, head{kind: kindStop})
		}
		if err := c.sendNext(buffered); err != nil {
			return false, err
		}
		buffered = c.buffer.unsent()
	}
	if len(buffered) > 0 && c.off >= c.limit {
		c.buffer.pack()
	}
	if len(buffered) == 0 {
		if err := c.sendDue(dueFin, head{kind: kindFin, value: c.off}); err != nil {
			return false, err
		}
	}
	return false, c.sendDue(dueStop, head{kind: kindStop})
}

// sendNext sends one message with the first buffered bytes, or with bytes of the first pending
// Write if no bytes are buffered.
func (c *Conn) sendNext(buffered []byte) error {
	if len(buffered) == 0 {
		return c.sendData(c.writers[0])
	}
	n, err := c.sendSome(buffered)
	if err == nil {
		c.buffer.advance(n)
	}
	return err
}

// If the flag d in c.due is set, sendDue sends a control message with the header h, and then clears
// the flag.
func (c *Conn) sendDue(d due, h head) error {
	if c.due&d == 0 {
		return nil
	}
	var body []byte
	if d == dueOpen {
		body = []byte(c.remote.Service)
	}
	if err := c.say(h, body); err != nil {
		return err
	}
	c.due &^= d
	c.finSent = c.finSent || d == dueFin
	return nil
}

// sendSome sends one message with the first bytes of b, and returns the number of sent bytes. If
// sendSome returns 0 without an error, the caller must call sendSome again, which then sends a
// smaller message.
func (c *Conn) sendSome(b []byte) (int, error) {
	if c.chunk == 0 {
		c.chunk = chunkBytes(c.n.m.Limits())
	}
	n := c.nextBytes(b)
	err := c.say(head{kind: kindData, value: c.off}, b[:n])
	if errors.Is(err, btl.ErrTooLarge) && c.chunk > 1 {
		c.chunk /= 2 // The peer accepts less than this side.
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	c.off += uint64(n)
	return n, nil
}

// nextBytes returns the number of bytes of b in the next message. nextBytes divides b into messages
// of nearly equal sizes, because a short last message would cost nearly as much as a long one.
func (c *Conn) nextBytes(b []byte) int {
	total := int(min(uint64(len(b)), c.limit-c.off))
	messages := (total + c.chunk - 1) / c.chunk
	return min(((total+messages-1)/messages+evenBytes-1)&^(evenBytes-1), c.chunk, total)
}

// evenBytes is the size of a cache line. The sizes of the messages of a divided Write are rounded
// up to multiples of evenBytes, within the maximum size of a message.
const evenBytes = 64

// chunkBytes returns the maximum number of stream bytes in one message, for a module with the given
// limits.
func chunkBytes(limits btl.Limits) int {
	if packet := limits.SegmentBytes - headBytes; packet >= chunkBytesMax/2 {
		return min(packet, chunkBytesMax)
	}
	return min(chunkBytesMax, limits.FragmentBytesMax-headBytes)
}

// sendData sends the next bytes of a Write.
func (c *Conn) sendData(q *request) error {
	rest := q.buf[q.n:]
	n, err := 0, error(nil)
	if c.lends(rest) {
		n, err = c.lend(q, rest[:c.nextBytes(rest)])
	} else {
		n, err = c.sendSome(rest)
	}
	if err != nil {
		return err
	}
	q.n += n
	if q.n == len(q.buf) {
		c.writers = pop(c.writers)
		q.endWrite(nil)
	}
	return nil
}

// The method "say" sends a message that belongs to this Conn.
func (c *Conn) say(h head, body []byte) error {
	h.mine, h.id = c.mine, c.id
	err := send(c.ep, c.n.cfg.Tag, &h, body, c.sent)
	if err == nil {
		c.inFlight++
	}
	return err
}

// onSent is called when the peer has acknowledged a message, or when the message has failed.
func (c *Conn) onSent(_ *btl.Fragment, err error) {
	c.inFlight--
	if err != nil {
		c.fail(err)
		return
	}
	if c.resets {
		c.resets = false
		c.tellReset()
	}
	c.advance()
}

// mayWrite returns nil if the application can write bytes, and otherwise the error that a Write
// must return.
func (c *Conn) mayWrite() error {
	switch {
	case c.closed || c.finished:
		return net.ErrClosed
	case c.err != nil:
		return c.err
	case c.wd.passed:
		return os.ErrDeadlineExceeded
	case c.stopped:
		return ErrStopped
	}
	return nil
}

// shutWrites informs the write buffer whether the application can write bytes. If the peer has
// closed its reading side, or if the Conn has failed, the buffered bytes are dropped.
func (c *Conn) shutWrites() { c.buffer.setShut(c.mayWrite() != nil, c.stopped || c.err != nil) }

// endWriters makes the pending Writes return the given error.
func (c *Conn) endWriters(err error) {
	for _, q := range c.writers {
		q.endWrite(err)
	}
	c.writers = nil
}

func (c *Conn) closeWrite() {
	if c.finished {
		return
	}
	c.finished = true
	c.shutWrites()
	if !c.stopped {
		c.due |= dueFin
	}
	c.endWriters(net.ErrClosed)
}

// The method "fail" ends a Conn with an error. The application can still read the bytes of a failed
// Conn up to the first gap in the received bytes.
func (c *Conn) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	c.shutWrites()
	c.answered(err)
	c.serveReaders()
	c.endWriters(err)
	c.n.leave(c)
}
