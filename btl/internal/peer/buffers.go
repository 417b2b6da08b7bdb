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
//   - A taken buffer contains the payload of a fragment that is not sent yet, or an open Pack (a
//     packet to which small fragments can still be added).
//   - A buffer in flight holds a packet that was sent and is not acknowledged.
//   - A buffer to release becomes free when the fabric has completed its send, because no
//     retransmission needs the buffer.
//
// The field "buffers" of an Endpoint counts the endpoint's send buffers that are not free.
//
// The methods of Buffers that take, fill and free send buffers are in this file. The methods that
// post packets, and that handle completed and refused sends, are in batches.go.
type Buffers struct {
	*Services

	segs     []SendSegment
	FreeSegs []reliability.Token
	Source   numbers.Source                 // of packet numbers
	ctlOwner [port.ControlBuffers]*Endpoint // endpoint that ends if its control packet fails
}

// SendSegment is the state of one send buffer. The buffer's Token is the index of its SendSegment.
type SendSegment struct {
	frag *Fragment // waits for the packet's ACK, or nil; in a Pack, the first fragment with OnDone
	ep   *Endpoint
	// If a packet contains data of several large fragments, the field "begins" of its SendSegment is
	// the last of these fragments, of which the packet contains only the first bytes.
	begins *Fragment

	bytes     uint32 // of the datagram, header included
	gatherAt  uint32 // offset in frag of the payload that the fabric gathers
	gatherLen uint16 // bytes that the fabric gathers, or 0 if the payload is in the buffer

	parted   bool  // the latest transmission of the packet was split into Parts (slices)
	void     bool  // the peer has refused the packet, which is retransmitted as an empty packet
	pack     bool  // the packet is a Pack: open, or sealed with several fragments
	mixed    bool  // a Pack with parts of large fragments, each of which waits for the ACK
	strip    bool  // the peer has refused records of the Pack: remove them before the retransmission
	stripTag uint8 // the tag of the refused records
}

// needsMemory reports whether the peer needs reassembly memory for the packet, because the packet
// contains a part of a message that takes several packets.
func (s *SendSegment) needsMemory() bool {
	return s.mixed || s.frag != nil && s.frag.large && !s.frag.put
}

// Describe stores the location and the length of the packet in "to", a send request for the fabric.
func (s *SendSegment) Describe(t reliability.Token, to *fabric.Send) {
	to.Buf, to.Len = fabric.Buf(t), s.bytes-uint32(s.gatherLen)
	if s.gatherLen == 0 {
		to.Region, to.RegionLen, to.RegionOff = 0, 0, 0
		return
	}
	f := s.frag
	to.Region, to.RegionOff = f.Data.Source(s.gatherAt)
	to.RegionLen = uint32(s.gatherLen)
}

func (bu *Buffers) init(sendBuffers int) {
	bu.segs = make([]SendSegment, sendBuffers)
	bu.FreeSegs = make([]reliability.Token, sendBuffers)
	for i := range bu.FreeSegs {
		bu.FreeSegs[i] = reliability.Token(sendBuffers - 1 - i)
	}
}

// mayTake reports whether an endpoint may take one more send buffer if "free" buffers are free.
func (bu *Buffers) mayTake(ep *Endpoint, free int) bool {
	held, all := ep.ID.Host.Buffers, len(bu.segs)
	return share.Ample(held, free, all) > 0 ||
		share.MayTake(ep.buffers, held, free, all, bu.Peers.Soles())
}

// takeRun appends free send buffers for chunks to the slice "run", until the slice has "limit"
// buffers, or the endpoint has reached its share of the send buffers.
func (bu *Buffers) takeRun(ep *Endpoint, limit int, run []reliability.Token) []reliability.Token {
	const part = 16
	spare := min(spareMax, len(bu.segs)/part)
	ample := share.Ample(ep.ID.Host.Buffers, len(bu.FreeSegs)-spare, len(bu.segs))
	for len(run) < limit {
		last := len(bu.FreeSegs) - 1
		if ample--; ample < 0 && !bu.mayTake(ep, last+1-spare) {
			break
		}
		run = append(run, bu.FreeSegs[last])
		bu.FreeSegs = bu.FreeSegs[:last]
		ep.buffers++
		ep.ID.Host.Buffers.Take()
	}
	return run
}

// The method "owner" returns the endpoint that must end if the fabric cannot send the packet in a
// buffer, or nil if no endpoint must end.
func (bu *Buffers) owner(buf fabric.Buf) *Endpoint {
	if n := int(buf) - len(bu.segs); n >= 0 {
		return bu.ctlOwner[n]
	}
	return bu.segs[buf].ep
}

// takeSeg takes a free send buffer for an endpoint, stores the buffer's Token in *t, and reports
// whether the endpoint was allowed to take a send buffer.
func (bu *Buffers) takeSeg(ep *Endpoint, t *reliability.Token) bool {
	n := len(bu.FreeSegs)
	if !bu.mayTake(ep, n) {
		return false
	}
	*t = bu.FreeSegs[n-1]
	bu.FreeSegs = bu.FreeSegs[:n-1]
	ep.buffers++
	ep.ID.Host.Buffers.Take()
	return true
}

// takeBulk appends up to "limit" send buffers for the chunks of f to the slice "run". If fragment f
// has no packets in flight and no buffer is free, takeBulk takes the buffer of a queued small
// fragment, because fragment f might otherwise wait for ever.
func (bu *Buffers) takeBulk(f *Fragment, limit int, run []reliability.Token) []reliability.Token {
	ep := f.Ep
	if limit > 0 && ep.idle(f) {
		var t reliability.Token
		if !bu.takeSeg(ep, &t) && !bu.borrowFrom(ep.small.queue.first, &t) {
			return run
		}
		run = append(run, t)
	}
	return bu.takeRun(ep, limit, run)
}

// If the endpoint has no packet in flight that will free a buffer, borrowSeg gives fragment f the
// send buffer of a fragment that is queued after f.
func (bu *Buffers) borrowSeg(f *Fragment, t *reliability.Token) bool {
	return !f.Ep.busy() &&
		(bu.borrowFrom(f.next, t) || f.large && bu.borrowFrom(f.Ep.small.queue.first, t))
}

// borrowFrom looks for a fragment with a send buffer in a list, from fragment l on, and takes the
// send buffer of the first one that it finds.
func (bu *Buffers) borrowFrom(l *Fragment, t *reliability.Token) bool {
	for ; l != nil; l = l.next {
		if l.hasSeg {
			*t = l.seg
			bu.emptySeg(l)
			return true
		}
	}
	return false
}

// giveSeg makes a send buffer of an endpoint free again, and wakes the flows (send queues) that
// wait for a buffer.
func (bu *Buffers) giveSeg(ep *Endpoint, t reliability.Token) {
	bu.Sched.SetBlocked(false)
	bu.Outbox.seekRoom()
	ep.buffers--
	ep.ID.Host.Buffers.Give()
	bu.FreeSegs = append(bu.FreeSegs, t)
}

// unfill moves the payload of a fragment from its send buffer to separate memory, and frees the
// buffer. unfill is called if the peer's MTU is so small that the fragment does not fit into a
// packet.
func (bu *Buffers) unfill(f *Fragment) {
	bu.emptySeg(f)
	bu.giveSeg(f.Ep, f.seg)
}

func (bu *Buffers) emptySeg(f *Fragment) {
	f.own = append(f.own[:0], f.Data.Bytes...)
	f.Data.Hold(f.own)
	bu.Recovery.Unqueue(f.seg)
	f.hasSeg = false
}

// TakeControl takes a control buffer for a packet on channel c to the given address (see
// port.Port.TakeControl). The result "ok" of TakeControl says whether the port has a free buffer
// for this packet.
func (bu *Buffers) TakeControl(c *port.Channel, to fabric.Addr) (b fabric.Buf, ok bool) {
	if b, ok = bu.Port.TakeControl(c, to); ok {
		bu.Dirty = true
	}
	return b, ok
}

// putSegment adds the packet in a send buffer to a channel's batch, with any payload that the
// fabric gathers from registered memory.
func (bu *Buffers) putSegment(c *port.Channel, t reliability.Token, to fabric.Addr) {
	s := c.Next(fabric.Buf(t))
	s.To = to
	bu.segs[t].Describe(t, s)
}

// release frees the send buffer of an acknowledged packet. If the fabric still uses the send
// buffer, it becomes free when the send completes.
func (bu *Buffers) release(t reliability.Token) {
	ep := bu.segs[t].ep
	if b := fabric.Buf(t); bu.Port.State[b]&port.Busy != 0 {
		bu.segs[t] = SendSegment{ep: ep}
		bu.Port.ReleaseWhenDone(b)
		return
	}
	bu.segs[t] = SendSegment{}
	bu.giveSeg(ep, t)
}

// keepGathered keeps the send buffer of an acknowledged packet and returns true if the fabric
// possibly still reads the packet's payload from the application's memory. After keepGathered has
// returned true, the packet's fragment ends only when the fabric has completed the send.
func (bu *Buffers) keepGathered(t reliability.Token) bool {
	b := fabric.Buf(t)
	if bu.segs[t].gatherLen == 0 || bu.Port.State[b]&port.Busy == 0 {
		return false
	}
	bu.Port.ReleaseWhenDone(b)
	return true
}

// takeAlong prepares the close of a region. For each packet in flight whose payload the fabric
// gathers from the region, takeAlong copies the payload into the packet's send buffer.
func (bu *Buffers) takeAlong(r *Region) {
	for i := range bu.segs {
		s := &bu.segs[i]
		if s.gatherLen == 0 || !s.frag.answer || !s.frag.Op.Reads(r) {
			continue
		}
		b := bu.Port.Arena.Bytes(fabric.Buf(i))[s.bytes-uint32(s.gatherLen) : s.bytes]
		copy(b, s.frag.Data.Gathered(s.gatherAt, s.gatherLen))
		s.gatherLen = 0
	}
	for _, c := range [...]*port.Channel{&bu.Port.Command, &bu.Port.Data} {
		for i := range c.Batch {
			if p := &c.Batch[i]; p.Region != 0 && bu.segs[p.Buf].gatherLen == 0 {
				bu.segs[p.Buf].Describe(reliability.Token(p.Buf), p)
			}
		}
	}
}

// seqOf returns the sequence number of the packet in a send buffer.
func (bu *Buffers) seqOf(t reliability.Token) seq.Num {
	return frag.SeqOf(bu.Port.Arena.Bytes(fabric.Buf(t)))
}

// recordsOf returns the payload of a sealed Pack, which consists of records (fragments with short
// headers).
func (bu *Buffers) recordsOf(t reliability.Token) []byte {
	return bu.Port.Arena.Bytes(fabric.Buf(t))[frag.FragHeaderBytes:bu.segs[t].bytes]
}

// chain adds a fragment of an open Pack to the list of those fragments whose OnDone is called when
// the Pack is acknowledged.
func (bu *Buffers) chain(p *openPack, f *Fragment) {
	f.state, f.out, f.cursor, f.next = fragSent, 1, f.size, nil
	if p.last == nil {
		bu.segs[p.seg].frag = f
	} else {
		p.last.next = f
	}
	p.last = f
}

func (c *Checker) checkFreeBuffers(all *Services) error {
	for _, t := range all.Buffers.FreeSegs {
		s := &all.Buffers.segs[t]
		if c.places[t] != placeNone {
			return fmt.Errorf("send buffer %d is free twice", t)
		}
		if all.Recovery.State(t) != reliability.Free || all.Port.State[fabric.Buf(t)] != 0 ||
			s.ep != nil || s.frag != nil || s.pack || s.begins != nil || s.gatherLen != 0 {
			return fmt.Errorf("free send buffer %d is %v, wire %d, of an endpoint: %v, of a fragment: %v",
				t, all.Recovery.State(t), all.Port.State[fabric.Buf(t)], s.ep != nil, s.frag != nil)
		}
		c.places[t] = placeFree
	}
	return nil
}

func (c *Checker) checkSegments(all *Services) error {
	for i := range all.Buffers.segs {
		s, state := &all.Buffers.segs[i], all.Port.State[fabric.Buf(i)]
		switch c.places[i] {
		case placeFree, placeQueued, placeEnded:
			continue
		case placeNone:
			if all.Recovery.State(reliability.Token(i)) != reliability.Free {
				return fmt.Errorf("send buffer %d is %v in no window", i,
					all.Recovery.State(reliability.Token(i)))
			}
			if state == 0 && s.ep == nil && s.frag == nil {
				c.lent++
				continue
			}
			if c.closed { // and the fabric with it
				continue
			}
			if state != port.Busy|port.Release || s.ep == nil {
				return fmt.Errorf("send buffer %d is lost: wire %d", i, state)
			}
			if all.Peers.Holds(s.ep) {
				c.held[s.ep.ID.Slot()]++
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
		if int(ep.buffers) < c.held[slot] || int32(ep.ID.Host.Buffers) < ep.buffers {
			return fmt.Errorf("endpoint %d counts %d send buffers, its host %d, %d found", slot, ep.buffers,
				ep.ID.Host.Buffers, c.held[slot])
		}
		lent += int(ep.buffers) - c.held[slot]
	}
	if lent > c.lent || c.lent > all.Frags.lent {
		return fmt.Errorf("%d send buffers lent, %d of living endpoints, %d fragments lent", c.lent,
			lent, all.Frags.lent)
	}
	return nil
}
