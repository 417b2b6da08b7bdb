package stranger

import "time"

// Which end of the peer an endpoint deals with, and how both come to know that they are
// established: rules 5 and 8 of section 7.

// askLast says that all is proven, each time with another nonce.
func (c *conn) askLast() {
	if c.nonces[0] = c.h.dice.Uint64(); c.lastFirst == 0 {
		c.lastFirst = c.nonces[0]
	}
	c.ask(0, c.far)
}

// answeredLast sees by the answer to such a Hello whether what followed the first was dropped. It
// is sent again then.
func (c *conn) answeredLast(x *hello) {
	first, latest := x.nonce == c.lastFirst, x.nonce == c.nonces[0]
	if c.lastFirst != 0 && x.channel == 0 && (first && x.proven != 3 || latest && !first) {
		c.sendUnheard()
	}
}

// sendUnheard sends again what the peer dropped, because it was not established.
func (c *conn) sendUnheard() {
	c.unheard++
	for _, s := range c.flight {
		s.wait = 0
	}
}

// onLast is a Hello to a half-open endpoint: it stays so until one says that all is proven, and
// that one tells the numbers that hold.
func (c *conn) onLast(d *datagram, p *packet) {
	if p.hello.proven == 3 {
		if !c.promote() {
			return
		}
		c.know(p)
		c.heard, c.confirmed = c.h.now, true
		c.establish()
	}
	c.tell(p.hello.tag)
	c.answer(d.ch, p.hello, c.addr[d.ch])
}

// askFromHalfOpen has a peer say so that sends as if it had.
func (c *conn) askFromHalfOpen() {
	if c.h.now.Before(c.asksDue) {
		return
	}
	c.asksDue = c.h.now.Add(20 * time.Millisecond)
	c.askedOut++
	c.ask(0, c.far)
}

// learn is the table of rule 8: whether the packet is the peer's.
func (c *conn) learn(p *packet) bool {
	x, h := p.hello, c.h
	same := c.far == x.tag
	free := c.freeFor(x.tag)
	switch {
	case c.state >= connected:
		return same
	case c.far != 0 && same:
		return true
	case c.far != 0 && c.state != connecting:
		return false
	case free:
		c.proven = 0
		c.know(p)
		return true
	case c.far != 0 && !c.stale():
		return false
	case c.far != 0:
		c.begin()
	case c.waitTag.IsZero():
		c.waitTag = c.answeredAt.Add(c.trip)
		if h.incarnation > x.incarnation {
			c.waitTag = c.waitTag.Add(20 * time.Millisecond)
		}
	}
	return false
}

// freeFor says whether no end of the peer but the one with that tag may use this side's: it was
// told to none, or to those that other connections of this side have.
func (c *conn) freeFor(tag uint64) bool {
	for told := range c.answered {
		taken := told == tag
		for _, other := range c.h.conns {
			taken = taken || other != c && other.far == told && other.peerInc == c.peerInc &&
				(other.state == connected || other.state == lingering)
		}
		if !taken {
			return false
		}
	}
	return true
}

// tell notes that an end of the peer is told this side's tag.
func (c *conn) tell(tag uint64) {
	if !c.answered[tag] {
		c.answered[tag], c.answeredAt = true, c.h.now
	}
}
