package btl

import (
	"errors"
	"fmt"

	"gobtl/fabric"
	"gobtl/reliability"
)

// buffers is what the module knows of the packet buffers that it sends from: send buffers, which
// hold a segment each and are known by its Token, and behind them in the arena a few for control
// packets, so that these never wait for data. A send buffer is
//
//	free         on the list
//	taken        with the caller, in a fragment that waits, or the open pack of an endpoint
//	in flight    sent and not acknowledged; busy as long as the fabric has its latest copy
//	to release   acknowledged, but still busy: free when the fabric lets go of it
//
// A control buffer is free or busy. Endpoint.buffers counts the send buffers of each endpoint that
// are not free.
type buffers struct {
	segs     []sendSegment
	freeSegs []reliability.Token
	freeCtl  []fabric.Buf
	tx       []uint8                     // per Buf: txBusy, txRelease, txApart
	ctlTo    [controlBuffers]fabric.Addr // where those that are busy go
	ctlOwner [controlBuffers]*Endpoint   // counted ones, whose packets must not fail
}

// What buffers.tx says of a buffer.
const (
	txBusy    = 1 << 0 // waiting in a channel's batch, or posted and not completed
	txRelease = 1 << 1 // nobody needs it any more: free it when it is no longer busy
	txApart   = 1 << 2 // a control buffer whose packet is to leave in a Post of its own
)

// sendSegment is what the module knows of a send buffer in flight, under the buffer's Token. It is
// small, for a stream walks through those of all its packets in flight.
type sendSegment struct {
	frag *Fragment // nil if nobody waits for it; of a pack the first of those that do
	ep   *Endpoint
	// begins is the fragment of which a mixed pack has the beginning, and whose rest follows it.
	begins *Fragment

	bytes     uint32 // of the datagram, header included
	gatherAt  uint32 // where in frag the payload begins that the fabric is to gather
	gatherLen uint16 // and its bytes; none if the payload is in the buffer

	data     bool  // goes by the data channel at first
	parted   bool  // its latest copy left in Parts
	alone    bool  // its latest copy left with no other packet to the same peer beside it
	void     bool  // refused by the peer: to be sent again as an empty packet
	pack     bool  // open, or sealed with several records
	mixed    bool  // a pack of large fragments, with pieces; somebody waits for each of them
	strip    bool  // records of a pack were refused, which are to be taken out when it is sent again
	stripTag uint8 // their tag
}

// channel is the one that it takes at first.
func (s *sendSegment) channel() reliability.Channel {
	if s.data {
		return reliability.Data
	}
	return reliability.Command
}

// describe says in a send what the packet of a segment is made of.
func (s *sendSegment) describe(t reliability.Token, to *fabric.Send) {
	to.Buf, to.Len = segBuf(t), s.bytes-uint32(s.gatherLen)
	if s.gatherLen == 0 {
		to.Region, to.RegionLen, to.RegionOff = 0, 0, 0
		return
	}
	f := s.frag
	to.Region, to.RegionOff = f.sourceAt(s.gatherAt)
	to.RegionLen = uint32(s.gatherLen)
}

func segToken(b fabric.Buf) reliability.Token { return reliability.Token(b) }

func segBuf(t reliability.Token) fabric.Buf { return fabric.Buf(t) }

// init makes the first sendBuffers of the arena send buffers, and some behind them control buffers.
func (b *buffers) init(sendBuffers int) {
	b.segs = make([]sendSegment, sendBuffers)
	b.freeSegs = make([]reliability.Token, sendBuffers)
	for i := range b.freeSegs {
		b.freeSegs[i] = reliability.Token(sendBuffers - 1 - i)
	}
	b.tx = make([]uint8, sendBuffers+controlBuffers)
	for i := range controlBuffers {
		b.freeCtl = append(b.freeCtl, fabric.Buf(sendBuffers+i))
	}
}

// mayTake says whether an endpoint may take one of n buffers that are free.
func (b *buffers) mayTake(ep *Endpoint, n int, alone bool) bool {
	return mayHave(ep.buffers, n, len(b.segs), alone)
}

// take takes a free send buffer for an endpoint.
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

// takeRun takes send buffers for chunks until run has limit of them. Of those that the endpoint may
// have it leaves some to small fragments.
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

// busy says whether the fabric has, or is about to get, the packet of a segment.
func (b *buffers) busy(t reliability.Token) bool { return b.tx[t]&txBusy != 0 }

// takeCtl takes a control buffer.
func (b *buffers) takeCtl() (buf fabric.Buf, ok bool) {
	n := len(b.freeCtl)
	if n == 0 {
		return 0, false
	}
	buf = b.freeCtl[n-1]
	b.freeCtl = b.freeCtl[:n-1]
	return buf, true
}

// mayTakeCtl says whether another control packet may go to an address: as many as are free may be
// on their way to it, as with send buffers (mayTake). A fabric may keep what a peer that stands
// still does not take, and the others need control buffers to live.
func (b *buffers) mayTakeCtl(to fabric.Addr) bool {
	free := len(b.freeCtl)
	if free > controlBuffers/2 { // more than all that are not, as it mostly is
		return true
	}
	held := 0
	for i, a := range &b.ctlTo {
		if a == to && b.tx[len(b.segs)+i] != 0 {
			held++
		}
	}
	return held < free
}

// owner is the endpoint that lives by what is in a buffer, nil if there is none.
func (b *buffers) owner(buf fabric.Buf) *Endpoint {
	if n := int(buf) - len(b.segs); n >= 0 {
		return b.ctlOwner[n]
	}
	return b.segs[buf].ep
}

// takeSeg takes a free send buffer for an endpoint, if it may have one.
func (m *Module) takeSeg(ep *Endpoint, t *reliability.Token) bool {
	return m.buffers.take(ep, m.lonely(), t)
}

// lonely says whether there is only one endpoint.
func (m *Module) lonely() bool { return m.slots.Len() == 1 }

// takeBulk takes up to limit send buffers for chunks, and appends them to run. If nothing of the
// fragment is in flight the first is taken even from a small fragment that waits, or it could wait
// for ever for a caller that holds all of them.
func (m *Module) takeBulk(f *Fragment, limit int, run []reliability.Token) []reliability.Token {
	ep := f.ep
	if limit > 0 && ep.idle(f) {
		var t reliability.Token
		if !m.takeSeg(ep, &t) && !m.borrowFrom(ep.small.queue.first, &t) {
			return run
		}
		run = append(run, t)
	}
	return m.takeRun(ep, m.lonely(), limit, run)
}

// giveSeg makes a send buffer of an endpoint free again, for whoever waits for one.
func (m *Module) giveSeg(ep *Endpoint, t reliability.Token) {
	m.sched.unblock()
	m.give(ep, t)
}

// takeControl takes a buffer for a packet that has no send buffer, if the channel has room for it,
// and those on their way to the same address are not too many.
func (m *Module) takeControl(c *channel, to fabric.Addr) (b fabric.Buf, ok bool) {
	if c.room() <= 0 {
		return 0, false
	}
	if !m.mayTakeCtl(to) {
		return 0, false
	}
	if b, ok = m.takeCtl(); ok {
		m.ctlTo[int(b)-len(m.segs)] = to
		m.dirty = true
	}
	return b, ok
}

// release frees an acknowledged send buffer, or has it freed when the fabric is done with it too.
func (m *Module) release(t reliability.Token) {
	ep := m.segs[t].ep
	if m.buffers.busy(t) {
		m.segs[t] = sendSegment{ep: ep}
		m.tx[t] |= txRelease
		return
	}
	m.segs[t] = sendSegment{}
	m.giveSeg(ep, t)
}

// keepGathered keeps a segment that is over for its peer while the fabric may still read its
// payload from the caller's memory: the fragment cannot end before.
func (m *Module) keepGathered(t reliability.Token) bool {
	if m.segs[t].gatherLen == 0 || !m.buffers.busy(t) {
		return false
	}
	m.tx[t] |= txRelease
	return true
}

// txDone notes that the fabric is done with a send, and frees its buffer if nobody else needs it.
func (m *Module) txDone(b fabric.Buf) {
	if w := &m.tx[b]; *w == txBusy && int(b) < len(m.segs) { // as it mostly is
		*w = 0
		return
	}
	m.letGo(b)
}

// letGo frees the buffer of a send that was waited for: any control packet, and what was released
// meanwhile.
func (m *Module) letGo(b fabric.Buf) {
	state := m.tx[b]
	m.tx[b] = 0
	if n := int(b) - len(m.segs); n >= 0 {
		m.freeCtl = append(m.freeCtl, b)
		m.ctlOwner[n] = nil
		m.sched.unblock() // a chunk may wait to leave in Parts
	} else if state&txRelease != 0 {
		m.segs[b].ep.txReleased()
		f := m.segs[b].frag // set only if the fragment waits for the fabric
		m.release(segToken(b))
		m.segEnded(f)
	}
}

// checkFreeBuffers looks at the free send buffers.
func (m *Module) checkFreeBuffers(c *checker) error {
	for _, t := range m.freeSegs {
		s := &m.segs[t]
		if c.places[t] != placeNone {
			return fmt.Errorf("send buffer %d is free twice", t)
		}
		if m.recovery.State(t) != reliability.Free || m.tx[t] != 0 || s.ep != nil || s.frag != nil ||
			s.pack || s.begins != nil || s.gatherLen != 0 {
			return fmt.Errorf("free send buffer %d is %v, wire %d, of an endpoint: %v, of a fragment: %v",
				t, m.recovery.State(t), m.tx[t], s.ep != nil, s.frag != nil)
		}
		c.places[t] = placeFree
	}
	return nil
}

// checkSegments looks at every send buffer where the free list, the queues and the windows have
// left it: what is in none of them is with the caller, or acknowledged but still posted.
func (m *Module) checkSegments(c *checker) error {
	for i := range m.segs {
		s, state := &m.segs[i], m.tx[i]
		if state&txBusy != 0 {
			c.busy++
		}
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
			if state != txBusy|txRelease || s.ep == nil {
				return fmt.Errorf("send buffer %d is lost: wire %d", i, state)
			}
			if m.holds(s.ep) {
				c.held[s.ep.slot]++
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
	return m.checkHeld(c)
}

// checkHeld compares the send buffers found of each endpoint with what it counts: the difference is
// lent to the caller.
func (m *Module) checkHeld(c *checker) error {
	lent := 0
	for slot, ep := range m.slots.Values() {
		if ep == nil {
			continue
		}
		if ep.buffers < c.held[slot] {
			return fmt.Errorf("endpoint %d counts %d send buffers, %d found", slot, ep.buffers,
				c.held[slot])
		}
		lent += ep.buffers - c.held[slot]
	}
	// Those of ended endpoints make up the rest.
	if lent > c.lent || c.lent > m.frags.lent {
		return fmt.Errorf("%d send buffers lent, %d of living endpoints, %d fragments lent", c.lent,
			lent, m.frags.lent)
	}
	return nil
}

// checkControl proves that every control buffer is free or with the fabric.
func (m *Module) checkControl(c *checker) error {
	if m.closed {
		return nil // the fabric is gone, with what it held
	}
	free := 0
	for b := len(m.segs); b < len(m.tx); b++ {
		if m.tx[b]&txBusy != 0 {
			c.busy++
		} else {
			free++
		}
	}
	for _, b := range m.freeCtl {
		if int(b) < len(m.segs) || int(b) >= len(m.tx) || m.tx[b] != 0 || c.seen[b] {
			return fmt.Errorf("control buffer %d is free, and is not", b)
		}
		c.seen[b] = true
	}
	for _, b := range m.freeCtl {
		c.seen[b] = false
	}
	if free != len(m.freeCtl) {
		return fmt.Errorf("%d control buffers on no wire, %d free", free, len(m.freeCtl))
	}
	return nil
}
