package peer

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/share"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Buffers is the state of the module's send buffers. Each send buffer holds one packet (segment)
// and is identified by a Token. The port has separate buffers for control packets. A send buffer
// has one of the following states:
//   - A free buffer is on the list of free buffers.
//   - A taken buffer belongs to the application or to a queued fragment, or is an open Pack.
//   - A buffer in flight is sent and not acknowledged.
//   - A buffer to release is acknowledged, but is in use by the fabric until a send completes.
//
// Endpoint.Buffers counts the send buffers of each endpoint that are not free.
type Buffers struct {
	*Services

	Segs     []SendSegment
	FreeSegs []reliability.Token
	Source   numbers.Source                 // of packet numbers
	ctlOwner [port.ControlBuffers]*Endpoint // endpoints that end if the fabric cannot send a packet
}

// SendSegment is the state of a send buffer in flight, indexed by the buffer's Token.
type SendSegment struct {
	Frag *Fragment // nil if no application waits for it; in a Pack the first such fragment
	Ep   *Endpoint
	// begins is the fragment whose first bytes are in the buffer's packet, behind the end of
	// another fragment. The rest of the fragment follows in later packets.
	begins *Fragment

	Bytes     uint32 // of the datagram, header included
	GatherAt  uint32 // where in frag the payload begins that the fabric is to gather
	GatherLen uint16 // and its bytes; none if the payload is in the buffer

	data     bool  // goes by the data channel at first
	parted   bool  // its latest copy left in Parts
	void     bool  // refused by the peer, and will be sent again as an empty packet
	pack     bool  // open, or sealed with several records
	mixed    bool  // a shared packet with parts of large fragments, each with a waiting application
	strip    bool  // records of a Pack were refused, and are removed before it is sent again
	stripTag uint8 // their tag
}

// channel is the channel on which the segment was sent first.
func (s *SendSegment) channel() reliability.Channel {
	if s.data {
		return reliability.Data
	}
	return reliability.Command
}

// Describe writes the location and the length of a segment's packet into the argument to, which is
// the request that the fabric gets.
func (s *SendSegment) Describe(t reliability.Token, to *fabric.Send) {
	to.Buf, to.Len = SegBuf(t), s.Bytes-uint32(s.GatherLen)
	if s.GatherLen == 0 {
		to.Region, to.RegionLen, to.RegionOff = 0, 0, 0
		return
	}
	f := s.Frag
	to.Region, to.RegionOff = f.Data.Source(s.GatherAt)
	to.RegionLen = uint32(s.GatherLen)
}

// SegToken returns the Token of a send buffer.
func SegToken(b fabric.Buf) reliability.Token { return reliability.Token(b) }

// SegBuf returns the send buffer with a Token.
func SegBuf(t reliability.Token) fabric.Buf { return fabric.Buf(t) }

func (bu *Buffers) init(sendBuffers int) {
	bu.Segs = make([]SendSegment, sendBuffers)
	bu.FreeSegs = make([]reliability.Token, sendBuffers)
	for i := range bu.FreeSegs {
		bu.FreeSegs[i] = reliability.Token(sendBuffers - 1 - i)
	}
}

func (bu *Buffers) mayTake(ep *Endpoint, n int, alone bool) bool {
	return share.MayHave(int(ep.Buffers), n, len(bu.Segs), alone)
}

// take takes a free send buffer for an endpoint and stores the buffer's Token in t. take returns
// false if the endpoint may not take a send buffer now.
func (bu *Buffers) take(ep *Endpoint, alone bool, t *reliability.Token) bool {
	n := len(bu.FreeSegs)
	if !bu.mayTake(ep, n, alone) {
		return false
	}
	*t = bu.FreeSegs[n-1]
	bu.FreeSegs = bu.FreeSegs[:n-1]
	ep.Buffers++
	return true
}

// takeRun appends send buffers for chunks to run until run has limit buffers.
func (bu *Buffers) takeRun(ep *Endpoint, alone bool, limit int, run []reliability.Token,
) []reliability.Token {
	const share = 16
	spare := min(spareMax, len(bu.Segs)/share)
	for len(run) < limit {
		last := len(bu.FreeSegs) - 1
		if !bu.mayTake(ep, last+1-spare, alone) {
			break
		}
		run = append(run, bu.FreeSegs[last])
		bu.FreeSegs = bu.FreeSegs[:last]
		ep.Buffers++
	}
	return run
}

// give makes a send buffer of an endpoint free again.
func (bu *Buffers) give(ep *Endpoint, t reliability.Token) {
	ep.Buffers--
	bu.FreeSegs = append(bu.FreeSegs, t)
}

// owner returns the endpoint that must end if the fabric cannot send the packet in a buffer, or nil
// if no endpoint must end.
func (bu *Buffers) owner(buf fabric.Buf) *Endpoint {
	if n := int(buf) - len(bu.Segs); n >= 0 {
		return bu.ctlOwner[n]
	}
	return bu.Segs[buf].Ep
}

// takeSeg takes a free send buffer for an endpoint, and returns false if the endpoint may not take
// one now.
func (bu *Buffers) takeSeg(ep *Endpoint, t *reliability.Token) bool {
	return bu.take(ep, bu.Peers.Alone(), t)
}

// takeBulk appends up to limit send buffers for the chunks of f to run. If f has no packets in
// flight and no buffer is free, takeBulk takes the buffer of a queued small fragment, because f
// might otherwise wait for ever.
func (bu *Buffers) takeBulk(f *Fragment, limit int, run []reliability.Token) []reliability.Token {
	ep := f.Ep
	if limit > 0 && ep.idle(f) {
		var t reliability.Token
		if !bu.takeSeg(ep, &t) && !bu.borrowFrom(ep.Small.Queue.First, &t) {
			return run
		}
		run = append(run, t)
	}
	return bu.takeRun(ep, bu.Peers.Alone(), limit, run)
}

// giveSeg makes a send buffer of an endpoint free again, and wakes the flows (send queues) that
// wait for a buffer.
func (bu *Buffers) giveSeg(ep *Endpoint, t reliability.Token) {
	bu.Sched.SetBlocked(false)
	bu.give(ep, t)
}

// TakeControl takes a control buffer for a packet that channel c will send to the address to (see
// port.Port.TakeControl). The result ok of takeControl is false if the port has no buffer now.
func (bu *Buffers) TakeControl(c *port.Channel, to fabric.Addr) (b fabric.Buf, ok bool) {
	if b, ok = bu.Port.TakeControl(c, to); ok {
		bu.dirty = true
	}
	return b, ok
}

// PutSegment adds a packet in a send buffer to a channel's batch, with the payload to gather from
// registered memory, if any.
func (bu *Buffers) PutSegment(c *port.Channel, t reliability.Token, to fabric.Addr) {
	s := c.Next(SegBuf(t))
	s.To = to
	bu.Segs[t].Describe(t, s)
}

// release frees an acknowledged send buffer. If the fabric still uses the buffer, the buffer
// becomes free when the send completes.
func (bu *Buffers) release(t reliability.Token) {
	ep := bu.Segs[t].Ep
	if b := SegBuf(t); bu.Port.Busy(b) {
		bu.Segs[t] = SendSegment{Ep: ep}
		bu.Port.ReleaseWhenDone(b)
		return
	}
	bu.Segs[t] = SendSegment{}
	bu.giveSeg(ep, t)
}

// keepGathered keeps an acknowledged segment if the fabric may still read the payload from the
// application's memory, and returns true. The fragment of a kept segment ends only when the send
// completes.
func (bu *Buffers) keepGathered(t reliability.Token) bool {
	b := SegBuf(t)
	if bu.Segs[t].GatherLen == 0 || !bu.Port.Busy(b) {
		return false
	}
	bu.Port.ReleaseWhenDone(b)
	return true
}

func (c *Checker) checkFreeBuffers(all *Services) error {
	for _, t := range all.Buffers.FreeSegs {
		s := &all.Buffers.Segs[t]
		if c.places[t] != placeNone {
			return fmt.Errorf("send buffer %d is free twice", t)
		}
		if all.Recovery.State(t) != reliability.Free || all.Port.State(SegBuf(t)) != 0 ||
			s.Ep != nil || s.Frag != nil || s.pack || s.begins != nil || s.GatherLen != 0 {
			return fmt.Errorf("free send buffer %d is %v, wire %d, of an endpoint: %v, of a fragment: %v",
				t, all.Recovery.State(t), all.Port.State(SegBuf(t)), s.Ep != nil, s.Frag != nil)
		}
		c.places[t] = placeFree
	}
	return nil
}

func (c *Checker) checkSegments(all *Services) error {
	for i := range all.Buffers.Segs {
		s, state := &all.Buffers.Segs[i], all.Port.State(fabric.Buf(i))
		switch c.places[i] {
		case placeFree, placeQueued, placeEnded:
			continue
		case placeNone:
			if all.Recovery.State(reliability.Token(i)) != reliability.Free {
				return fmt.Errorf("send buffer %d is %v in no window", i,
					all.Recovery.State(reliability.Token(i)))
			}
			if state == 0 && s.Ep == nil && s.Frag == nil {
				c.lent++
				continue
			}
			if c.closed { // and the fabric with it
				continue
			}
			if state != port.Busy|port.Release || s.Ep == nil {
				return fmt.Errorf("send buffer %d is lost: wire %d", i, state)
			}
			if all.Peers.Holds(s.Ep) {
				c.held[s.Ep.ID.Slot]++
			}
		case placeWindow, placePack:
		}
		for f := s.Frag; f != nil; f = f.Next {
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
	switch inFlight := all.Recovery.InFlight(); {
	case c.window != inFlight:
		return fmt.Errorf("%d packets in the windows, %d timed or to be resent", c.window, inFlight)
	case c.refs != c.out:
		return fmt.Errorf("%d send buffers of fragments that count %d", c.refs, c.out)
	}
	return c.checkHeld(all)
}

func (c *Checker) checkHeld(all *Services) error {
	lent := 0
	for slot, ep := range all.Peers.All() {
		if ep == nil {
			continue
		}
		if int(ep.Buffers) < c.held[slot] {
			return fmt.Errorf("endpoint %d counts %d send buffers, %d found", slot, ep.Buffers,
				c.held[slot])
		}
		lent += int(ep.Buffers) - c.held[slot]
	}
	if lent > c.lent || c.lent > all.Frags.Lent {
		return fmt.Errorf("%d send buffers lent, %d of living endpoints, %d fragments lent", c.lent,
			lent, all.Frags.Lent)
	}
	return nil
}

// seqOf returns the sequence number of the packet in a send buffer.
func (bu *Buffers) seqOf(t reliability.Token) seq.Num {
	return frag.SeqOf(bu.Port.Arena.Bytes(SegBuf(t)))
}
