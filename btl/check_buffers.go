package btl

import (
	"errors"
	"fmt"

	"gobtl/fabric"
	"gobtl/reliability"
)

// checkFreeFragments looks at the free descriptors in turn, some in each call.
func (m *Module) checkFreeFragments(c *checker) error {
	const some = 8
	for range min(some, len(m.freeFrags)) {
		if c.freeNext++; c.freeNext >= len(m.freeFrags) {
			c.freeNext = 0
		}
		if f := m.freeFrags[c.freeNext]; f.state != fragFree || f.ep != nil || f.hasSeg || f.out != 0 ||
			f.ownRegion {
			return fmt.Errorf("free descriptor %d is in state %d", c.freeNext, f.state)
		}
	}
	return nil
}

// checkEnded looks at a list of fragments that have ended, of which the owner is to be told. A
// buffer that was never sent is given back only then.
func (m *Module) checkEnded(c *checker, l *fragmentList) error {
	count := 0
	for f := l.first; f != nil; f = f.next {
		if count++; f.state != fragEnded || f.out != 0 || f.ownRegion ||
			count > l.count {
			return fmt.Errorf("fragment in state %d with %d packets in flight has ended", f.state, f.out)
		}
		if !f.isBye() {
			c.frags[fragEnded]++
		}
		if !f.hasSeg {
			continue
		}
		if c.places[f.seg] != placeNone || m.seg.State(f.seg) != reliability.Free {
			return fmt.Errorf("send buffer %d of a fragment that has ended is %v, %v", f.seg,
				c.places[f.seg], m.seg.State(f.seg))
		}
		c.places[f.seg] = placeEnded
		if slot := f.ep.slot; m.slots[slot] == f.ep {
			c.held[slot]++
		}
	}
	if count != l.count {
		return fmt.Errorf("%d fragments have ended, %d counted", count, l.count)
	}
	return nil
}

// checkFragments proves that every descriptor is free, lent, queued, sent, or waits for its OnDone.
func (m *Module) checkFragments(c *checker) error {
	found := len(m.freeFrags) + m.fragsLent + c.frags[fragQueued] + c.frags[fragSent] +
		c.frags[fragEnded]
	if found != m.fragCount || m.fragsLent < 0 || m.fragCount > m.cfg.FragmentsMax {
		return fmt.Errorf("%d descriptors, at most %d: %d free, %d lent, %d queued, %d sent, %d ended",
			m.fragCount, m.cfg.FragmentsMax, len(m.freeFrags), m.fragsLent, c.frags[fragQueued],
			c.frags[fragSent], c.frags[fragEnded])
	}
	return nil
}

// checkLists proves that the module's lists hold exactly the living endpoints that belong there,
// those whose ACK is due first.
func (m *Module) checkLists(c *checker) error {
	if c.packs != m.packs {
		return fmt.Errorf("%d packs are open, %d counted", c.packs, m.packs)
	}
	early, ready, owing := 0, 0, 0
	for _, ep := range m.slots {
		if ep == nil {
			continue
		}
		for _, f := range [...]*flow{&ep.small, &ep.large} {
			switch f.list {
			case &m.early:
				early++
			case &m.ready:
				ready++
			}
		}
		if ep.ackOwed {
			owing++
		}
	}
	if err := m.checkFlows(&m.early, early); err != nil {
		return fmt.Errorf("early list: %w", err)
	}
	if err := m.checkFlows(&m.ready, ready); err != nil {
		return fmt.Errorf("ready list: %w", err)
	}
	if err := m.checkList(&m.acks, owing); err != nil {
		return fmt.Errorf("list of ACKs: %w", err)
	}
	due := m.now
	for ep := m.acks.first; ep != nil; ep = ep.ackLink.next {
		at := max(ep.rcv.AckDue(), m.now)
		if at < due {
			return fmt.Errorf("list of ACKs: one due %d stands behind one due %d", at, due)
		}
		due = at
	}
	return nil
}

func (m *Module) checkList(l *endpointList, members int) error {
	n := 0
	var last *Endpoint
	for ep := l.first; ep != nil && n <= l.count; ep = ep.ackLink.next {
		n++
		if m.slots[ep.slot] != ep || !ep.ackOwed {
			return errors.New("an endpoint that does not belong there")
		}
		if ep.ackLink.prev != last {
			return errors.New("its links do not match")
		}
		last = ep
	}
	if n != l.count || n != members || l.last != last {
		return fmt.Errorf("%d members, %d counted, %d endpoints say so", n, l.count, members)
	}
	return nil
}

// checkFlows does so for a list of flows.
func (m *Module) checkFlows(l *flowList, members int) error {
	n := 0
	var last *flow
	for f := l.first; f != nil && n <= l.count; f = f.next {
		n++
		if m.slots[f.ep.slot] != f.ep || f.list != l {
			return errors.New("an endpoint that does not belong there")
		}
		if f.prev != last {
			return errors.New("its links do not match")
		}
		last = f
	}
	if n != l.count || n != members || l.last != last {
		return fmt.Errorf("%d members, %d counted, %d flows say so", n, l.count, members)
	}
	return nil
}

// checkPosted proves that the channels count the buffers that the fabric has, or is about to get.
func (m *Module) checkPosted(c *checker) error {
	if m.closed {
		return nil
	}
	with := 0
	for _, ch := range [...]*channel{&m.cmd, &m.data} {
		if ch.posted < 0 || ch.posted+len(ch.batch) > ch.caps.TxDepth || len(ch.batch) > batchMax {
			return fmt.Errorf("%s channel: %d sends posted, %d to be posted, at most %d", ch.label(),
				ch.posted, len(ch.batch), ch.caps.TxDepth)
		}
		with += ch.posted + len(ch.batch)
		for i := range ch.batch {
			if b := ch.batch[i].Buf; int(b) >= len(m.tx) || m.tx[b]&txBusy == 0 {
				return fmt.Errorf("%s channel: buffer %d to be posted is not busy", ch.label(), b)
			}
		}
	}
	if with != c.busy {
		return fmt.Errorf("%d buffers on the wire, %d sends posted or to be posted", c.busy, with)
	}
	return nil
}

// checkReceives proves that every receive buffer is posted or about to be.
func (m *Module) checkReceives(c *checker) error {
	if m.closed {
		return nil
	}
	first := m.rxFirst
	for _, ch := range [...]*channel{&m.cmd, &m.data} {
		here := ch.receiving + len(ch.repost)
		if ch == m.deferred.on && m.deferred.pending {
			here++
		}
		depth := cap(ch.repost)
		if here != depth || ch.receiving < 0 {
			return fmt.Errorf("%s channel: %d receive buffers posted, %d to be posted, of %d", ch.label(),
				ch.receiving, len(ch.repost), depth)
		}
		last := first + fabric.Buf(depth)
		for _, b := range ch.repost {
			if b < first || b >= last || c.seen[b] {
				return fmt.Errorf("%s channel: receive buffer %d to be posted is not its own, or twice",
					ch.label(), b)
			}
			c.seen[b] = true
		}
		for _, b := range ch.repost {
			c.seen[b] = false
		}
		first = last
	}
	return nil
}

// checkRegions looks at the exposed regions and the cache of registrations.
func (m *Module) checkRegions(checked *checker) error {
	t, live := &m.regions, 0
	for slot, r := range t.slots {
		if r == nil {
			continue
		}
		live++
		if r.m != m || uint64(r.handle)&(1<<regionSlotBits-1) != uint64(slot) {
			return fmt.Errorf("region %d has the handle %#x", slot, r.handle)
		}
	}
	if live+len(t.free) != len(t.slots) || len(t.slots) > t.max {
		return fmt.Errorf("%d regions and %d free places of %d, at most %d", live, len(t.free),
			len(t.slots), t.max)
	}
	for _, slot := range t.free {
		if t.slots[slot] != nil {
			return fmt.Errorf("region %d is free and taken", slot)
		}
	}
	if checked.regions != m.ownRegions {
		return fmt.Errorf("%d regions of fragments under way, %d counted", checked.regions, m.ownRegions)
	}
	c, idle := &m.regCache, 0
	for e := c.idle.idleNext; e != &c.idle && idle <= c.idleLen; e = e.idleNext {
		if idle++; e.users != 0 {
			return fmt.Errorf("a registration with %d users is idle", e.users)
		}
	}
	if idle != c.idleLen || idle > c.keep {
		return fmt.Errorf("%d idle registrations, %d counted, at most %d", idle, c.idleLen, c.keep)
	}
	return nil
}
