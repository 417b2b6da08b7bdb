package btl

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/share"
	"gobtl/fabric"
	"gobtl/reliability"
)

// buffers is the state of the module's send buffers. Each send buffer holds one packet (segment)
// and is identified by a Token. The port has separate buffers for control packets. A send buffer
// has one of the following states:
//   - A free buffer is on the list of free buffers.
//   - A taken buffer belongs to the application or to a queued fragment, or is an open Pack.
//   - A buffer in flight is sent and not acknowledged.
//   - A buffer to release is acknowledged, but is in use by the fabric until a send completes.
//
// Endpoint.buffers counts the send buffers of each endpoint that are not free.
type buffers struct {
	segs     []sendSegment
	freeSegs []reliability.Token
	source   numbers.Source                 // of packet numbers
	ctlOwner [port.ControlBuffers]*Endpoint // endpoints on counted links, whose packets must not fail
}

// sendSegment is the state of a send buffer in flight, indexed by the buffer's Token.
type sendSegment struct {
	frag *Fragment // nil if no application waits for it; in a Pack the first such fragment
	ep   *Endpoint
	// begins is the fragment whose first bytes are in the buffer's packet, behind the end of
	// another fragment. The rest of the fragment follows in later packets.
	begins *Fragment

	bytes     uint32 // of the datagram, header included
	gatherAt  uint32 // where in frag the payload begins that the fabric is to gather
	gatherLen uint16 // and its bytes; none if the payload is in the buffer

	data     bool  // goes by the data channel at first
	parted   bool  // its latest copy left in Parts
	void     bool  // refused by the peer, and will be sent again as an empty packet
	pack     bool  // open, or sealed with several records
	mixed    bool  // a shared packet with parts of large fragments, each with a waiting application
	strip    bool  // records of a Pack were refused, and are removed before it is sent again
	stripTag uint8 // their tag
}

// channel is the channel on which the segment was sent first.
func (s *sendSegment) channel() reliability.Channel {
	if s.data {
		return reliability.Data
	}
	return reliability.Command
}

// describe fills the fabric.Send to with the location and length of a segment's packet.
func (s *sendSegment) describe(t reliability.Token, to *fabric.Send) {
	to.Buf, to.Len = segBuf(t), s.bytes-uint32(s.gatherLen)
	if s.gatherLen == 0 {
		to.Region, to.RegionLen, to.RegionOff = 0, 0, 0
		return
	}
	f := s.frag
	to.Region, to.RegionOff = f.data.Source(s.gatherAt)
	to.RegionLen = uint32(s.gatherLen)
}

func segToken(b fabric.Buf) reliability.Token { return reliability.Token(b) }

func segBuf(t reliability.Token) fabric.Buf { return fabric.Buf(t) }

func (b *buffers) init(sendBuffers int) {
	b.segs = make([]sendSegment, sendBuffers)
	b.freeSegs = make([]reliability.Token, sendBuffers)
	for i := range b.freeSegs {
		b.freeSegs[i] = reliability.Token(sendBuffers - 1 - i)
	}
}

func (b *buffers) mayTake(ep *Endpoint, n int, alone bool) bool {
	return share.MayHave(ep.buffers, n, len(b.segs), alone)
}

// take takes a free send buffer for an endpoint and stores the buffer's Token in t. take returns
// false if the endpoint may not take a send buffer now.
func (b *buffers) take(ep *Endpoint, alone bool, t *reliability.Token) bool {
	n := len(b.freeSegs)
	if !b.mayTake(ep, n, alone) {
		return false
	}
	*t = b.freeSegs[n-1]
	b.freeSegs = b.freeSegs[:n-1]
	ep.buffers++
	return true
}

// takeRun appends send buffers for chunks to run until run has limit buffers.
func (b *buffers) takeRun(ep *Endpoint, alone bool, limit int, run []reliability.Token,
) []reliability.Token {
	const share = 16
	spare := min(spareMax, len(b.segs)/share)
	for len(run) < limit {
		last := len(b.freeSegs) - 1
		if !b.mayTake(ep, last+1-spare, alone) {
			break
		}
		run = append(run, b.freeSegs[last])
		b.freeSegs = b.freeSegs[:last]
		ep.buffers++
	}
	return run
}

// give makes a send buffer of an endpoint free again.
func (b *buffers) give(ep *Endpoint, t reliability.Token) {
	ep.buffers--
	b.freeSegs = append(b.freeSegs, t)
}

// owner returns the endpoint that fails if the fabric cannot send the packet in a buffer. owner
// returns nil if no endpoint has to fail.
func (b *buffers) owner(buf fabric.Buf) *Endpoint {
	if n := int(buf) - len(b.segs); n >= 0 {
		return b.ctlOwner[n]
	}
	return b.segs[buf].ep
}

// takeSeg takes a free send buffer for an endpoint, and returns false if the endpoint may not take
// one now.
func (m *Module) takeSeg(ep *Endpoint, t *reliability.Token) bool {
	return m.buffers.take(ep, m.peers.Alone(), t)
}

// takeBulk appends up to limit send buffers for the chunks of f to run. If f has no packets in
// flight and no buffer is free, takeBulk takes the buffer of a queued small fragment, because f
// might otherwise wait for ever.
func (m *Module) takeBulk(f *Fragment, limit int, run []reliability.Token) []reliability.Token {
	ep := f.ep
	if limit > 0 && ep.idle(f) {
		var t reliability.Token
		if !m.takeSeg(ep, &t) && !m.borrowFrom(ep.small.queue.first, &t) {
			return run
		}
		run = append(run, t)
	}
	return m.takeRun(ep, m.peers.Alone(), limit, run)
}

// giveSeg makes a send buffer of an endpoint free again, and wakes the flows (send queues) that
// wait for a buffer.
func (m *Module) giveSeg(ep *Endpoint, t reliability.Token) {
	m.sched.SetBlocked(false)
	m.give(ep, t)
}

// takeControl takes a control buffer for a packet that channel c will send to the address to (see
// port.Port.TakeControl). The result ok of takeControl is false if the port has no buffer now.
func (m *Module) takeControl(c *port.Channel, to fabric.Addr) (b fabric.Buf, ok bool) {
	if b, ok = m.port.TakeControl(c, to); ok {
		m.dirty = true
	}
	return b, ok
}

// putSegment adds a packet in a send buffer to a channel's batch, with the payload to gather from
// registered memory, if any.
func (m *Module) putSegment(c *port.Channel, t reliability.Token, to fabric.Addr) {
	s := c.Next(segBuf(t))
	s.To = to
	m.segs[t].describe(t, s)
}

// release frees an acknowledged send buffer. If the fabric still uses the buffer, the buffer
// becomes free when the send completes.
func (m *Module) release(t reliability.Token) {
	ep := m.segs[t].ep
	if b := segBuf(t); m.port.Busy(b) {
		m.segs[t] = sendSegment{ep: ep}
		m.port.ReleaseWhenDone(b)
		return
	}
	m.segs[t] = sendSegment{}
	m.giveSeg(ep, t)
}

// keepGathered keeps an acknowledged segment if the fabric may still read the payload from the
// application's memory, and returns true. The fragment of a kept segment ends only when the send
// completes.
func (m *Module) keepGathered(t reliability.Token) bool {
	b := segBuf(t)
	if m.segs[t].gatherLen == 0 || !m.port.Busy(b) {
		return false
	}
	m.port.ReleaseWhenDone(b)
	return true
}

func (c *checker) checkFreeBuffers(m *Module) error {
	for _, t := range m.freeSegs {
		s := &m.segs[t]
		if c.places[t] != placeNone {
			return fmt.Errorf("send buffer %d is free twice", t)
		}
		if m.recovery.State(t) != reliability.Free || m.port.State(segBuf(t)) != 0 ||
			s.ep != nil || s.frag != nil || s.pack || s.begins != nil || s.gatherLen != 0 {
			return fmt.Errorf("free send buffer %d is %v, wire %d, of an endpoint: %v, of a fragment: %v",
				t, m.recovery.State(t), m.port.State(segBuf(t)), s.ep != nil, s.frag != nil)
		}
		c.places[t] = placeFree
	}
	return nil
}

func (c *checker) checkSegments(m *Module) error {
	for i := range m.segs {
		s, state := &m.segs[i], m.port.State(fabric.Buf(i))
		switch c.places[i] {
		case placeFree, placeQueued, placeEnded:
			continue
		case placeNone:
			if m.recovery.State(reliability.Token(i)) != reliability.Free {
				return fmt.Errorf("send buffer %d is %v in no window", i,
					m.recovery.State(reliability.Token(i)))
			}
			if state == 0 && s.ep == nil && s.frag == nil {
				c.lent++
				continue
			}
			if m.closed { // and the fabric with it
				continue
			}
			if state != port.Busy|port.Release || s.ep == nil {
				return fmt.Errorf("send buffer %d is lost: wire %d", i, state)
			}
			if m.peers.Holds(s.ep) {
				c.held[s.ep.id.Slot]++
			}
		case placeWindow, placePack:
		}
		for f := s.frag; f != nil; f = f.next {
			if err := c.ref(i, f); err != nil {
				return err
			}
			if !s.pack {
				break
			}
		}
		if f := s.begins; f != nil {
			if err := c.ref(i, f); err != nil || !s.mixed {
				return errors.Join(err, fmt.Errorf("send buffer %d begins a fragment, mixed %v", i, s.mixed))
			}
		}
	}
	switch inFlight := m.recovery.InFlight(); {
	case c.window != inFlight:
		return fmt.Errorf("%d packets in the windows, %d timed or to be resent", c.window, inFlight)
	case c.refs != c.out:
		return fmt.Errorf("%d send buffers of fragments that count %d", c.refs, c.out)
	}
	return c.checkHeld(m)
}

func (c *checker) checkHeld(m *Module) error {
	lent := 0
	for slot, ep := range m.peers.All() {
		if ep == nil {
			continue
		}
		if ep.buffers < c.held[slot] {
			return fmt.Errorf("endpoint %d counts %d send buffers, %d found", slot, ep.buffers,
				c.held[slot])
		}
		lent += ep.buffers - c.held[slot]
	}
	if lent > c.lent || c.lent > m.frags.lent {
		return fmt.Errorf("%d send buffers lent, %d of living endpoints, %d fragments lent", c.lent,
			lent, m.frags.lent)
	}
	return nil
}
