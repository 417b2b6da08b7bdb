package conn

import (
	"errors"

	"gobtl/btl"
)

// A large Write lends the transport the caller's memory: the fabric reads the bytes of a message
// from there, without a copy. The caller may change the memory when Write has returned. Write
// therefore returns only when the peer has acknowledged all messages whose bytes were lent. The
// last bytes of a Write are copied, as many as are in flight, so that Write does not wait for the
// acknowledgements of the messages that it has just sent:
//
//	one Write:  |------------- lent -------------|--- copied ---|
//	                                             in flight when Write returns
//
// Bytes are lent only if a packet holds a whole message. Of a message in many packets, the copy
// costs less than the second piece of memory of each packet.

// lent is a message in flight whose bytes lie in the caller's memory.
type lent struct {
	head [headBytes]byte
	q    *request
	done func(*btl.Fragment, error) // the method onDone, as a value made once
}

// lends reports whether the next message of a Write is sent from the caller's memory. Parameter
// rest of lends is what the Write has not sent yet. A message is lent if at least as many bytes
// follow in the same Write as are in flight: the message is acknowledged while they are sent. A
// Write with a deadline lends nothing, because such a Write must end even if the peer acknowledges
// nothing.
func (c *Conn) lends(rest []byte) bool {
	return c.chunk > 0 && len(rest) > (c.inFlight+1)*c.chunk && c.wd.timer == nil &&
		c.limit-c.off >= uint64(c.chunk) && c.ep.MTUBytes() > headBytes+c.chunk
}

// lend sends a message whose bytes are b, which is part of the buffer of a Write. The results are
// those of sendSome.
func (c *Conn) lend(q *request, b []byte) (int, error) {
	n := c.n
	l := n.takeLent()
	h := head{kind: kindData, mine: c.mine, id: c.id, value: c.off}
	h.put(l.head[:])
	f, err := c.ep.PreparePieces(n.cfg.Tag, l.head[:], b)
	if err == nil {
		f.Signal, f.OnDone = true, l.done
		if _, err = c.ep.Send(c.ep.Now(), f); err != nil {
			_ = c.ep.Free(f) // Send has failed, so the fragment is the caller's.
		}
	}
	if err != nil {
		n.lents = append(n.lents, l)
		if errors.Is(err, btl.ErrTooLarge) && c.chunk > 1 {
			c.chunk /= 2 // The peer accepts less than this side.
			return 0, nil
		}
		return 0, err
	}
	l.q = q
	q.lent++
	c.inFlight++
	c.off += uint64(len(b))
	return len(b), nil
}

// takeLent returns a lent without a message.
func (n *Node) takeLent() *lent {
	if last := len(n.lents) - 1; last >= 0 {
		l := n.lents[last]
		n.lents = n.lents[:last]
		return l
	}
	l := &lent{}
	l.done = l.onDone
	return l
}

// onDone notes that the transport does not read the bytes of a message any more: the peer has
// acknowledged the message, or the message has failed.
func (l *lent) onDone(_ *btl.Fragment, err error) {
	q := l.q
	c := q.conn
	l.q = nil
	c.n.lents = append(c.n.lents, l)
	q.lent--
	if q.over {
		q.endWrite(q.err)
	}
	c.onSent(nil, err)
}

// endWrite ends a Write with an error, as soon as the transport reads none of its bytes any more.
// After endWrite the request may belong to another call.
func (q *request) endWrite(err error) {
	q.over, q.err = true, err
	if q.lent == 0 {
		q.w.Wake(err)
	}
}
