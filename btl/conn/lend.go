package conn

import (
	"errors"

	"gobtl/btl"
)

// The messages of a large Write are sent directly from the caller's memory, without a copy. Write
// returns only when the peer has acknowledged the messages that were sent without a copy, because
// the caller may change its memory as soon as Write has returned. The last lendTail messages of a
// large Write are copied, so that Write need not wait for their acknowledgement. The copied
// messages are still in flight when Write returns, so that the path is not idle until the next
// Write.
//
//	one Write   |============= lent =============|=== copied ===|
//	                                             in flight when Write returns
//
// A message that needs several packets is always copied, because the copy costs less than a second
// memory segment (gather entry) in each packet.

// lendTail is the number of messages at the end of a large Write that are copied.
const lendTail = 4

// The type "lent" describes a message in flight whose bytes are in the memory of Write's caller.
type lent struct {
	head [headBytes]byte
	q    *request
	done func(*btl.Fragment, error) // the method onDone, as a value made once
}

// The method "lends" reports whether the next message of a Write is sent from the caller's memory,
// without a copy. The argument "rest" of the method "lends" is the part of the Write that is not
// sent yet. For a Write with a deadline, the method "lends" returns false, because a Write with a
// deadline must end even if the peer acknowledges nothing.
func (c *Conn) lends(rest []byte) bool {
	return c.chunk > 0 && len(rest) > (lendTail+1)*c.chunk && c.wd.timer == nil &&
		c.limit-c.off >= uint64(c.chunk) && c.ep.MTUBytes() > headBytes+c.chunk
}

// The method "lend" sends the bytes b, a part of the slice given to Write, as one message without a
// copy. The results of the method "lend" have the same meaning as those of sendSome.
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

// takeLent returns an unused object of the type "lent".
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

// onDone is called when the transport no longer reads the bytes of a message, because the peer has
// acknowledged the message or the message has failed.
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

// endWrite makes a Write return the given error or nil, as soon as the transport no longer reads
// the Write's bytes. The caller must not use the request object after endWrite, because another
// Read or Write might have reused this object.
func (q *request) endWrite(err error) {
	q.over, q.err = true, err
	if q.lent == 0 {
		q.w.Wake(err)
	}
}
