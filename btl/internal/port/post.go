package port

import (
	"errors"

	"gobtl/fabric"
)

// All packets leave by the functions of this file, and arrive by those of poll.go. Post posts a
// batch of packets, PostOne a single packet, and Inject a packet whose buffer is free at once.

// Put adds a packet of sizeBytes in buffer b to the batch. Room must be positive.
func (c *Channel) Put(b fabric.Buf, sizeBytes int, to fabric.Addr) {
	s := c.Next(b)
	s.To, s.Buf, s.Len = to, b, uint32(sizeBytes)
	s.Region, s.RegionLen, s.RegionOff = 0, 0, 0
}

// Next adds a send of buffer b to the batch, and returns the entry of the batch, whose fields the
// caller must all set. Room must be positive.
func (c *Channel) Next(b fabric.Buf) *fabric.Send {
	c.p.state[b] |= Busy
	c.p.alone[b] = false
	n := len(c.batch)
	c.batch = c.batch[:n+1]
	return &c.batch[n]
}

// Post posts the batch. Packets that the fabric cannot take now stay in the batch until the next
// poll. Packets that the fabric rejects for good are lost. After Post, the caller must call Refused
// and Done.
func (c *Channel) Post() {
	taken := 0
	for taken < len(c.batch) {
		end := len(c.batch)
		if c.apart {
			end = c.beside(taken)
		}
		n, err := c.ep.Post(c.batch[taken:end])
		c.noteAlone(c.batch[taken:end], n)
		c.sentAll(c.batch[taken : taken+n])
		taken += n
		if errors.Is(err, fabric.ErrAgain) {
			c.postOthers(taken)
			return
		}
		if err != nil && taken < len(c.batch) {
			c.refuse(&c.batch[taken], err)
			taken++
		}
	}
	c.batch = c.batch[:copy(c.batch, c.batch[taken:])]
	c.apart = false
}

// SetApart makes Post use a separate call of the fabric for the latest packet of the batch, which
// is in buffer b.
func (c *Channel) SetApart(b fabric.Buf) {
	c.p.state[b] |= apart
	c.apart = true
}

// TakeOut removes a packet from the batch without sending the packet. The buffer of a
// removed packet is released as after a send, and is returned by Done.
func (c *Channel) TakeOut(at int) {
	b := c.batch[at].Buf
	c.batch = append(c.batch[:at], c.batch[at+1:]...)
	c.p.letGo(b)
}

// Starting with the packet at index from, several packets of the batch may be posted in one call.
// beside returns the index after the last of these packets.
func (c *Channel) beside(from int) int {
	for i := from; i < len(c.batch); i++ {
		if c.p.state[c.batch[i].Buf]&apart != 0 {
			return max(i, from+1)
		}
	}
	return len(c.batch)
}

// noteAlone marks the packets that were posted without an adjacent packet to the same address.
// The fabric has taken the first n of the sends.
func (c *Channel) noteAlone(sends []fabric.Send, n int) {
	if n == 0 || c.p.Info.Reliable {
		return
	}
	before := fabric.AddrUnknown
	last := len(sends) - 1
	for i := range sends[:n] {
		s := &sends[i]
		if s.To != before && (i == last || sends[i+1].To != s.To) {
			c.p.alone[s.Buf] = true
		}
		before = s.To
	}
}

// postOthers posts the sends after batch[at], a send that the fabric cannot take now. The sends to
// each peer stay in the order of the batch.
func (c *Channel) postOthers(at int) {
	batch, kept := c.batch, 0
	for i := at; i < len(batch); {
		end := i
		for c.p.Info.Reliable && i > at && end < len(batch) && !GoesTo(batch[:kept], batch[end].To) {
			end++
		}
		n, err := 0, fabric.ErrAgain
		if end > i {
			n, err = c.ep.Post(batch[i:end])
			c.sentAll(batch[i : i+n])
		}
		if i += n; n > 0 && (i == end || err == nil) {
			continue
		}
		if errors.Is(err, fabric.ErrAgain) {
			batch[kept] = batch[i]
			kept++
		} else {
			c.refuse(&batch[i], err)
		}
		i++
	}
	c.batch = batch[:kept]
}

// PostOne posts a batch that has exactly one send.
func (c *Channel) PostOne() {
	taken, err := c.ep.Post(c.batch)
	switch {
	case taken == 1:
		c.noteAlone(c.batch, 1)
		c.sent(&c.batch[0])
	case errors.Is(err, fabric.ErrAgain):
		return
	default:
		c.refuse(&c.batch[0], err)
	}
	c.batch = c.batch[:0]
}

// Inject posts a packet of at most Caps.InjectBytes at once. Buffer b is free again when Inject
// returns. The batch must be empty. The errors of Inject are those of the provider.
func (c *Channel) Inject(b fabric.Buf, sizeBytes int, to fabric.Addr) error {
	s := &c.batch[:1][0]
	s.To, s.Buf, s.Len = to, b, uint32(sizeBytes)
	s.Region, s.RegionLen, s.RegionOff = 0, 0, 0
	_, err := c.ep.Post(c.batch[:1])
	return err
}

// refuse records a send that the fabric has rejected for good.
func (c *Channel) refuse(s *fabric.Send, err error) {
	c.p.refused = append(c.p.refused, Refusal{*s, err})
	c.p.letGo(s.Buf)
}

// sentAll records several posted sends.
func (c *Channel) sentAll(sends []fabric.Send) {
	p, inject := c.p, c.caps.InjectBytes
	for i := range sends {
		s := &sends[i]
		if w := &p.state[s.Buf]; *w == Busy && int(s.Len+s.RegionLen) <= inject &&
			int(s.Buf) < p.sends {
			*w = 0
			continue
		}
		c.sent(s)
	}
}

// sent records a send that the fabric has accepted.
func (c *Channel) sent(s *fabric.Send) {
	if int(s.Len+s.RegionLen) <= c.caps.InjectBytes {
		c.p.letGo(s.Buf)
	} else {
		c.posted++
		c.total++
	}
}

// SendDone records the completion of a send from buffer b. After SendDone, the caller must call
// Done.
func (c *Channel) SendDone(b fabric.Buf) {
	c.posted--
	c.p.letGo(b)
}

// lastSend marks the last send to an address to which nothing more will be sent.
type lastSend struct {
	mark  uint64 // count of sends (Channel.taken) up to the last one
	waits bool   // such a send was in the batch when last checked
}

func (c *Channel) lastSend(to fabric.Addr) lastSend {
	return lastSend{c.taken(), GoesTo(c.batch, to)}
}

func (c *Channel) hasGone(l *lastSend, to fabric.Addr) bool {
	if l.waits {
		if l.waits = GoesTo(c.batch, to); l.waits {
			l.mark = c.taken()
		}
	}
	return c.posted == 0 && len(c.batch) == 0 || c.total-uint64(c.posted) >= l.mark
}

// GoesTo reports whether any of the sends goes to an address.
func GoesTo(sends []fabric.Send, to fabric.Addr) bool {
	for i := range sends {
		if sends[i].To == to {
			return true
		}
	}
	return false
}

// taken returns the number of sends posted so far that complete later, plus the sends in the
// batch.
func (c *Channel) taken() uint64 { return c.total + uint64(len(c.batch)) }
