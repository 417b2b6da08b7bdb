package port

import (
	"errors"

	"gobtl/fabric"
)

// The functions in this file send all packets, and the functions in every_packet_in.go receive all
// packets. Post posts a batch of packets, and PostOne posts a single packet. Inject posts a packet
// whose buffer is free again when Inject returns.

// Put adds the packet in buffer "b" to the batch. The argument sizeBytes of Put is the length of
// the packet in bytes. The caller may call Put only if the result of Room is positive.
func (c *Channel) Put(b fabric.Buf, sizeBytes int, to fabric.Addr) {
	s := c.Next(b)
	s.To, s.Buf, s.Len = to, b, uint32(sizeBytes)
	s.Region, s.RegionLen, s.RegionOff = 0, 0, 0
}

// Next adds a send of buffer "b" to the batch, and returns the new entry of the batch. The caller
// must set all fields of the new entry. The caller may call Next only if the result of Room is
// positive.
func (c *Channel) Next(b fabric.Buf) *fabric.Send {
	c.p.State[b] |= Busy
	c.p.Uncoalesced[b] = false
	n := len(c.Batch)
	c.Batch = c.Batch[:n+1]
	return &c.Batch[n]
}

// Post posts the batch. Packets that the fabric cannot take yet stay in the batch until the next
// poll. Packets that the fabric permanently rejects are removed from the batch (see Refused). After
// Post, the caller must call Refused and Done.
func (c *Channel) Post() {
	taken := 0
	for taken < len(c.Batch) {
		end := len(c.Batch)
		if c.apart {
			end = c.beside(taken)
		}
		n, err := c.Endpoint.Post(c.Batch[taken:end])
		c.noteUncoalesced(c.Batch[taken:end], n)
		c.sentAll(c.Batch[taken : taken+n])
		taken += n
		if errors.Is(err, fabric.ErrAgain) {
			before := len(c.Batch)
			c.postOthers(taken)
			if len(c.Batch) < before {
				c.moves()
			}
			c.tried = len(c.Batch)
			return
		}
		if err != nil && taken < len(c.Batch) {
			c.refuse(&c.Batch[taken], err)
			taken++
		}
	}
	c.Batch = c.Batch[:copy(c.Batch, c.Batch[taken:])]
	c.apart, c.tried = false, 0
	c.moves()
}

// The method "moves" records that packets have left the batch.
func (c *Channel) moves() {
	if c.stuckAt != 0 {
		c.stuckAt, c.p.unstuck = 0, true
	}
}

// SetApart makes Post pass the packet in buffer "b", which must be the latest packet of the batch,
// to the fabric in a separate call.
func (c *Channel) SetApart(b fabric.Buf) {
	c.p.State[b] |= apart
	c.apart = true
}

// TakeOut removes a packet from the batch without sending the packet. The buffer of a removed
// packet is released in the same way as after the completion of a send.
func (c *Channel) TakeOut(at int) {
	b := c.Batch[at].Buf
	c.Batch = append(c.Batch[:at], c.Batch[at+1:]...)
	c.p.letGo(b)
}

// The method "beside" returns the index after the last packet of the batch that may be posted in
// one call with the packet at the index "from".
func (c *Channel) beside(from int) int {
	for i := from; i < len(c.Batch); i++ {
		if c.p.State[c.Batch[i].Buf]&apart != 0 {
			return max(i, from+1)
		}
	}
	return len(c.Batch)
}

// noteUncoalesced marks the packets that the fabric cannot have coalesced, because the adjacent
// packets go to different addresses. The argument "n" of noteUncoalesced is the number of sends
// that the fabric has taken.
func (c *Channel) noteUncoalesced(sends []fabric.Send, n int) {
	if n == 0 || c.p.Info.Reliable {
		return
	}
	before := fabric.AddrUnknown
	last := len(sends) - 1
	for i := range sends[:n] {
		s := &sends[i]
		if s.To != before && (i == last || sends[i+1].To != s.To) {
			c.p.Uncoalesced[s.Buf] = true
		}
		before = s.To
	}
}

// postOthers is called when the fabric cannot take the send batch[at] yet. Over a reliable fabric,
// postOthers posts those sends after batch[at] that go to different addresses. The sends to one
// address stay in the order of the batch.
func (c *Channel) postOthers(at int) {
	batch, kept := c.Batch, 0
	for i := at; i < len(batch); {
		end := i
		for c.p.Info.Reliable && i > at && end < len(batch) && !GoesTo(batch[:kept], batch[end].To) {
			end++
		}
		n, err := 0, fabric.ErrAgain
		if end > i {
			n, err = c.Endpoint.Post(batch[i:end])
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
	c.Batch = batch[:kept]
}

// PostOne posts a batch that contains exactly one send.
func (c *Channel) PostOne() {
	taken, err := c.Endpoint.Post(c.Batch)
	switch {
	case taken == 1:
		c.noteUncoalesced(c.Batch, 1)
		c.sent(&c.Batch[0])
	case errors.Is(err, fabric.ErrAgain):
		return
	default:
		c.refuse(&c.Batch[0], err)
	}
	c.Batch = c.Batch[:0]
}

// Inject immediately posts a packet of at most Caps.InjectBytes. The buffer "b" is free again when
// Inject returns. The caller may call Inject only if the batch is empty. Inject returns the errors
// of the provider unchanged.
func (c *Channel) Inject(b fabric.Buf, sizeBytes int, to fabric.Addr) error {
	s := &c.Batch[:1][0]
	s.To, s.Buf, s.Len = to, b, uint32(sizeBytes)
	s.Region, s.RegionLen, s.RegionOff = 0, 0, 0
	_, err := c.Endpoint.Post(c.Batch[:1])
	return err
}

// refuse records a send that the fabric has permanently rejected.
func (c *Channel) refuse(s *fabric.Send, err error) {
	c.p.refused = append(c.p.refused, Refusal{*s, err})
	c.p.letGo(s.Buf)
}

// sentAll records several sends that the fabric has accepted.
func (c *Channel) sentAll(sends []fabric.Send) {
	p, inject := c.p, c.Caps.InjectBytes
	for i := range sends {
		s := &sends[i]
		if w := &p.State[s.Buf]; *w == Busy && int(s.Len+s.RegionLen) <= inject &&
			int(s.Buf) < p.sends {
			*w = 0
			continue
		}
		c.sent(s)
	}
}

// The method "sent" records a send that the fabric has accepted.
func (c *Channel) sent(s *fabric.Send) {
	if int(s.Len+s.RegionLen) <= c.Caps.InjectBytes {
		c.p.letGo(s.Buf)
	} else {
		c.Posted++
		c.total++
	}
}

// SendDone records the completion of a send from buffer "b". After SendDone, the caller must call
// Done.
func (c *Channel) SendDone(b fabric.Buf) {
	c.Posted--
	c.p.letGo(b)
}

// lastSend identifies the last send to an address that is no longer used.
type lastSend struct {
	mark  uint64 // count of sends (Channel.taken) up to the last send
	waits bool   // a send to the address was in the batch at the latest check
}

func (c *Channel) lastSend(to fabric.Addr) lastSend {
	return lastSend{c.taken(), GoesTo(c.Batch, to)}
}

func (c *Channel) hasGone(l *lastSend, to fabric.Addr) bool {
	if l.waits { // the waiting send was possibly posted after sends behind it in the batch
		l.mark, l.waits = c.taken(), GoesTo(c.Batch, to)
	}
	return c.Posted == 0 && len(c.Batch) == 0 || c.total-uint64(c.Posted) >= l.mark
}

// GoesTo reports whether at least one of the sends goes to the address "to".
func GoesTo(sends []fabric.Send, to fabric.Addr) bool {
	for i := range sends {
		if sends[i].To == to {
			return true
		}
	}
	return false
}

// The method "taken" returns the number of sends ever posted, except those that completed during
// Post, plus the number of sends in the batch.
func (c *Channel) taken() uint64 { return c.total + uint64(len(c.Batch)) }
