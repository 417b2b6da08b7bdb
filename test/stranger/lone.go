package stranger

import "time"

// The functions below implement lone replies of section 6 on both sides.

// loneWait is the time for which the acknowledgement of a lone reply may be delayed.
const loneWait = 40 * time.Millisecond

// lone is the state of a connection for lone replies (packets whose ACK the peer may delay).
type lone struct {
	patient bool // what is owed an Ack for is the peer's lone answer alone
	holds   bool // and that Ack is held back
	came    int  // those of the peer, the own ones, those sent again for a copy: for tests
	sent    int
	missed  int
}

func (c *conn) knowsLone() bool {
	const all = featSack | featAsk | featLater
	return c.features&all == all
}

// loneCame checks whether a received packet is a lone reply, and delays its acknowledgement.
func (c *conn) loneCame(p *packet) {
	c.lone.patient = p.flags&fLater != 0 && !c.owed
	c.lone.holds = c.lone.patient && len(c.flight) == 0 && c.expected == p.seq+1 && c.top == c.expected
	if c.lone.patient {
		c.lone.came++
	}
}

// ackWait is the longest delay of a separate Ack.
func (c *conn) ackWait() time.Duration {
	if c.lone.holds {
		return loneWait
	}
	return c.h.opt.ackAfter
}

// answersAlone reports whether a segment may be sent as a lone reply if it carries the
// acknowledgement.
func (c *conn) answersAlone(s *segment) bool {
	return c.knowsLone() && s.tries == 0 && s.p.kind == kFrag && s.p.tag <= tagTop &&
		len(c.flight) == 1 && c.owed && !c.lone.patient && !c.bye && c.opens()
}

// hasten ends the extended time-out of a lone reply, because another packet is sent.
func (c *conn) hasten() {
	for _, s := range c.flight {
		if s.lone {
			s.lone, s.at, s.wait = false, c.h.now, waitFirst
		}
	}
}

// copyCame handles a copy, which may mean that a lone reply was lost.
func (c *conn) copyCame() {
	for _, s := range c.flight {
		switch {
		case !s.lone:
		case c.h.now.Sub(s.at) < 300*time.Microsecond: // too soon to say so
			c.hasten()
		default:
			c.lone.missed++
			c.transmit(s)
		}
	}
}

// judgeLone checks that a packet with the flag Later was agreed on, is sent once, and has no
// earlier packet in flight.
func (c *conn) judgeLone(p *packet, again bool) {
	if p.flags&fLater == 0 {
		return
	}
	if !c.knowsLone() {
		c.h.wrong("packet %d may be acknowledged later, which was not agreed", p.seq)
	}
	if again {
		c.h.wrong("packet %d may be acknowledged later, and is sent again", p.seq)
	}
	if !c.acked || int32(p.seq-1-c.law.told) > 0 {
		c.h.wrong("packet %d may be acknowledged later, and those before it are not yet: %d", p.seq,
			c.law.told)
	}
}
