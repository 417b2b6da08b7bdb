package btl

import (
	"errors"
	"fmt"

	"gobtl/reliability"
)

// Check verifies the whole state of the module, and returns an error for the first inconsistency.
// Check is for tests and simulators, which call it after each call of Progress. The time of Check
// is proportional to the number of send buffers and endpoints. Only the first call of Check
// allocates memory.
func (m *Module) Check() error {
	if m.checker == nil {
		m.checker = new(checker)
	}
	c := m.checker
	c.reset(m)
	if err := c.check(m); err != nil {
		return fmt.Errorf("btl: check: %w", err)
	}
	return nil
}

func (c *checker) check(m *Module) error {
	if err := m.clock.Check(); err != nil {
		return err
	}
	if err := m.recovery.Check(); err != nil {
		return err
	}
	if err := c.checkFreeBuffers(m); err != nil {
		return err
	}
	if err := m.frags.checkFree(c); err != nil {
		return err
	}
	for slot, ep := range m.peers.All() {
		if ep == nil {
			continue
		}
		if ep.m != m || int(ep.id.Slot) != slot {
			return fmt.Errorf("slot %d holds an endpoint of slot %d", slot, ep.id.Slot)
		}
		if err := c.checkEndpoint(m, ep); err != nil {
			return fmt.Errorf("endpoint %d: %w", slot, err)
		}
	}
	for _, step := range [...]func(*Module) error{
		c.checkTables, c.checkOutbox, c.checkWanting, c.checkPauses, c.checkSegments,
		c.checkParts,
		c.checkPort, c.checkStats,
		c.checkLanding, c.checkPaths, c.checkRest,
	} {
		if err := step(m); err != nil {
			return err
		}
	}
	if err := m.remote.Check(); err != nil {
		return err
	}
	return m.frags.payloads.Check(c.regions)
}

func (c *checker) checkParts(m *Module) error {
	if err := m.frags.check(c, m.cfg.FragmentsMax); err != nil {
		return err
	}
	if err := m.sched.check(c, &m.peers); err != nil {
		return err
	}
	return m.acks.Check(c.acks, m.clock.Now)
}

func (c *checker) checkEndpoint(m *Module, ep *Endpoint) error {
	if err := c.checkState(m, ep); err != nil {
		return err
	}
	if err := c.checkLink(m, ep); err != nil {
		return err
	}
	if err := c.checkAsks(ep); err != nil {
		return err
	}
	if err := c.checkPack(m, ep); err != nil {
		return err
	}
	for _, f := range [...]*flow{&ep.small, &ep.large} {
		if err := c.checkFlow(m, f); err != nil {
			return err
		}
		if err := c.checkQueue(m, f); err != nil {
			return err
		}
	}
	if err := ep.rcv.Tally(&c.acks); err != nil {
		return err
	}
	if err := ep.rcv.CheckState(); err != nil {
		return err
	}
	charged := ep.rcv.Booked()
	c.charged += charged
	if ep.joined {
		c.joined++
	} else if charged != 0 {
		return fmt.Errorf("%d credits without a share", charged)
	}
	if err := ep.asm.Check(); err != nil {
		return err
	}
	c.asmBytes += ep.asm.ActiveBytes()
	if ep.id.State() != stateConnected && ep.asm.Active() > 0 {
		return fmt.Errorf("%d fragments arrive in state %d", ep.asm.Active(), ep.id.State())
	}
	return ep.checkFlushes()
}

func (c *checker) checkState(m *Module, ep *Endpoint) error {
	state, shakes := ep.id.State(), ep.id.Handshake() != nil
	handshake := state == stateConnecting || state == stateAccepting
	switch {
	case m.peers.Lookup(ep.id.Tag) != ep:
		return fmt.Errorf("its tag %#x is not its own", ep.id.Tag)
	case ep.joined != (ep.id.State() == stateConnected):
		return fmt.Errorf("in state %d, has a share of the credits: %v", ep.id.State(), ep.joined)
	case (ep.err != nil) != (ep.id.State() == stateLingering):
		return fmt.Errorf("in state %d, has ended: %v", ep.id.State(), ep.err != nil)
	case handshake && !shakes || state == stateLingering && shakes:
		return fmt.Errorf("in state %d, has a handshake: %v", ep.id.State(), ep.id.Handshake() != nil)
	case ep.id.Handshake() != nil && ep.id.Handshake().Check() != nil:
		return ep.id.Handshake().Check()
	case ep.closeAt > m.clock.Unpaused:
		return fmt.Errorf("closes since %d, and it is %d", ep.closeAt, m.clock.Unpaused)
	case ep.life.Check(m.clock.Unpaused) != nil:
		return ep.life.Check(m.clock.Unpaused)
	case ep.rcv.Owes() != (ep.rcv.AckDue() != Never):
		return fmt.Errorf("owes an ACK: %v, due %d", ep.rcv.Owes(), ep.rcv.AckDue())
	}
	if ep.life.Runs() {
		c.timers++
		if err := m.watches.Check(ep); err != nil {
			return err
		}
	} else if shakes || ep.closing || ep.life.Superseded() || state != stateConnected ||
		m.cfg.KeepAlive > 0 {
		return fmt.Errorf("has no timer in state %d (closing %v, superseded %v)", state, ep.closing,
			ep.life.Superseded())
	}
	return nil
}

func (*checker) checkFlow(m *Module, f *flow) error {
	ep := f.Owner()
	ahead := ep.balance.Bytes()
	switch {
	case f.Listed() != f.may():
		return fmt.Errorf("ready: %v, with %d fragments queued in state %d, window open: %v",
			f.Listed(), f.queue.count, ep.id.State(), ep.snd.Open())
	case max(f.Deficit(), ahead-m.port.Data.MTUBytes()) > m.quantum() ||
		min(f.Deficit(), ahead) < -2*m.port.Data.MTUBytes():
		return fmt.Errorf("a deficit of %d bytes, a balance of %d, with a quantum of %d",
			f.Deficit(), ahead, m.quantum())
	}
	return nil
}

func (c *checker) checkQueue(m *Module, fl *flow) error {
	count := 0
	ep, q := fl.Owner(), &fl.queue
	for f := q.first; f != nil; f = f.next {
		count++
		switch {
		case f.state != fragQueued || f.ep != ep || ep.flowOf(f) != fl:
			return fmt.Errorf("fragment in state %d queued", f.state)
		case f.cursor > f.size || f.out > 0 && !ep.id.Counted &&
			(f != q.first || !f.large):
			return fmt.Errorf("fragment with %d of %d bytes sent stands at %d of the queue", f.cursor,
				f.size, count)
		case f.next == nil && q.last != f || count > q.count:
			return fmt.Errorf("queue of %d has another end", q.count)
		case f.hasSeg && (c.places[f.seg] != placeNone ||
			m.recovery.State(f.seg) != reliability.Queued ||
			m.segs[f.seg].ep != nil || m.port.State(segBuf(f.seg)) != 0):
			return fmt.Errorf("queued fragment's segment %d is %v, %v, wire %d", f.seg, c.places[f.seg],
				m.recovery.State(f.seg), m.port.State(segBuf(f.seg)))
		case f.out > 0:
			c.meet(f)
		case !f.internal():
			c.frags[fragQueued]++
			if f.data.Registered() { // the packets sent so far are acknowledged
				c.regions++
			}
		case f.data.Registered():
			c.regions++
		}
		if f.hasSeg {
			c.places[f.seg] = placeQueued
			c.held[ep.id.Slot]++
		}
	}
	if count != q.count {
		return fmt.Errorf("queue of %d has %d members", q.count, count)
	}
	return nil
}

func (c *checker) checkPack(m *Module, ep *Endpoint) error {
	p := &ep.pack
	if err := p.Check(ep.packBytesMax()); err != nil {
		return err
	}
	if !p.Open() {
		if *p != (openPack{}) {
			return fmt.Errorf("no pack is open, and send buffer %d is its own", p.seg)
		}
		return nil
	}
	s := &m.segs[p.seg]
	switch {
	case ep.id.State() != stateConnected || !ep.snd.Open():
		return fmt.Errorf("a pack is open in state %d, window open: %v", ep.id.State(), ep.snd.Open())
	case c.places[p.seg] != placeNone || m.recovery.State(p.seg) != reliability.Queued ||
		m.port.State(segBuf(p.seg)) != 0 || s.ep != ep || !s.pack || s.void || s.strip:
		return fmt.Errorf("the open pack's segment %d is %v, %v, wire %d", p.seg, c.places[p.seg],
			m.recovery.State(p.seg), m.port.State(segBuf(p.seg)))
	case (s.frag == nil) != (p.last == nil) || p.last != nil && p.last.next != nil:
		return fmt.Errorf("the chain of the open pack has another end")
	}
	c.places[p.seg] = placePack
	c.packs++
	c.held[ep.id.Slot]++
	return nil
}

func (c *checker) checkTables(m *Module) error {
	if c.timers != m.watches.Len() {
		return fmt.Errorf("%d endpoints have a timer, %d run", c.timers, m.watches.Len())
	}
	if err := m.peers.Check(); err != nil {
		return err
	}
	if err := m.handshakes.CheckRequests(); err != nil {
		return err
	}
	switch {
	case c.charged != m.credits.Granted():
		return fmt.Errorf("%d credits granted to the endpoints, %d counted", c.charged,
			m.credits.Granted())
	case c.joined != m.credits.Peers():
		return fmt.Errorf("%d endpoints share the credits, %d counted", c.joined, m.credits.Peers())
	case c.asmBytes != m.pool.ActiveBytes():
		return fmt.Errorf("%d bytes of reassembly of the endpoints, %d in use", c.asmBytes,
			m.pool.ActiveBytes())
	}
	if err := m.credits.Check(); err != nil {
		return err
	}
	return m.pool.Check()
}

func (*checker) checkPort(m *Module) error {
	if err := m.port.CheckAddresses(m.peers.Len()); err != nil || m.closed {
		return err // a closed module has no fabric any more
	}
	var lent [2]int
	if m.deferred.pending {
		lent[m.deferred.on.Which()]++
	}
	return errors.Join(m.keeping.Check(), m.port.Check(lent), m.arrivals.Check())
}

func (c *checker) checkStats(m *Module) error {
	n := &m.stats.counters
	waiting := int64(0) // delivered early, and not yet counted
	if m.deferred.pending {
		waiting = 1
	}
	sends := n[CntSendsFast] + n[CntSendsPacked] + n[CntSendsQueued]
	under := uint64(c.frags[fragQueued] + c.frags[fragSent])
	switch u := m.stats.Unaccounted(); {
	case u != waiting:
		return fmt.Errorf("%d packets received that no counter explains, %d deferred", u, waiting)
	case sends != n[CntDone]+n[CntFailed]+under:
		return fmt.Errorf("%d sends accepted, %d done, %d failed, %d under way", sends, n[CntDone],
			n[CntFailed], under)
	case n[CntRetransmitDupAck] > n[CntDupAcks]:
		return fmt.Errorf("%d resends for %d duplicate ACKs", n[CntRetransmitDupAck], n[CntDupAcks])
	case n[CntRetransmitNack] > n[CntRecvNack]:
		return fmt.Errorf("%d resends for %d Nacks", n[CntRetransmitNack], n[CntRecvNack])
	case n[CntFastReceives] > n[CntReceived] || n[CntDelivered] < n[CntFastReceives]:
		return fmt.Errorf("%d received, %d of them fast, %d delivered", n[CntReceived],
			n[CntFastReceives], n[CntDelivered])
	}
	return nil
}
