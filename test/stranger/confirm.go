package stranger

import "time"

// The functions below find the peer's endpoint that an endpoint deals with, and establish the
// connection, by rules 5 and 8 of section 7.

// askLast sends the Hello that says that all is proven, each time with another nonce.
func (c *conn) askLast() {
	if c.nonces[0] = c.h.dice.Uint64(); c.lastFirst == 0 {
		c.lastFirst = c.nonces[0]
	}
	c.ask(0, c.far)
}

// answeredLast sends the dropped packets again, if the answer to the Hello shows that the peer
// dropped them.
func (c *conn) answeredLast(x *hello) {
	first, latest := x.nonce == c.lastFirst, x.nonce == c.nonces[0]
	if c.lastFirst != 0 && x.channel == 0 && (first && x.proven != 3 || latest && !first) {
		c.sendUnheard()
	}
}

// sendUnheard sends packets again that the peer dropped because it was not established.
func (c *conn) sendUnheard() {
	c.unheard++
	for _, s := range c.flight {
		s.wait = 0
	}
}

// onLast handles a Hello to a half-open endpoint, which stays half-open until a Hello says that all
// is proven, with the final numbers.
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

// askFromHalfOpen asks for that Hello from a peer that sends packets as if the connection were
// established.
func (c *conn) askFromHalfOpen() {
	if c.h.now.Before(c.asksDue) {
		return
	}
	c.asksDue = c.h.now.Add(20 * time.Millisecond)
	c.askedOut++
	c.ask(0, c.far)
}

// learn decides by the table of rule 8 whether a packet is the peer's.
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

// freeFor reports whether this side's endpoint belongs to no other endpoint of the peer than the
// one with the given tag.
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

// tell records that a peer's endpoint is told this side's tag.
func (c *conn) tell(tag uint64) {
	if !c.answered[tag] {
		c.answered[tag], c.answeredAt = true, c.h.now
	}
}
