package btl

import (
	"fmt"

	"gobtl/reliability"
)

// Check walks the module's whole state and returns the first broken invariant. It is slow: for
// tests and simulators, which call it after every pass.
func (m *Module) Check() error {
	if err := m.seg.Check(); err != nil {
		return err
	}
	inFlight := len(m.fresh)
	joined := 0
	for slot, ep := range m.slots {
		if ep == nil {
			continue
		}
		if ep.m != m || int(ep.slot) != slot || ep.state == stateEnded {
			return fmt.Errorf("btl: slot %d holds an endpoint of slot %d, state %d", slot, ep.slot, ep.state)
		}
		if len(m.fresh) == 0 {
			if err := ep.snd.Check(m.seg); err != nil {
				return err
			}
		}
		if err := ep.rcv.CheckState(); err != nil {
			return err
		}
		if ep.joined {
			joined++
		}
		inFlight += ep.snd.InFlight()
	}
	if len(m.fresh) == 0 && inFlight != m.seg.InFlight() {
		return fmt.Errorf("btl: %d packets in the windows, %d timed or to be resent", inFlight,
			m.seg.InFlight())
	}
	if u := m.stats.Unaccounted(); u != 0 && !m.deferred.pending {
		return fmt.Errorf("btl: %d packets received that no counter explains", u)
	}
	return m.checkBuffers()
}

// checkBuffers proves that every send buffer and every receive buffer is in exactly one place.
func (m *Module) checkBuffers() error {
	if m.closed {
		return nil
	}
	free := make([]bool, len(m.segs))
	for _, t := range m.freeSegs {
		if free[t] {
			return fmt.Errorf("btl: send buffer %d is free twice", t)
		}
		free[t] = true
		if m.seg.State(t) != reliability.Free || m.wire[t] != 0 {
			return fmt.Errorf("btl: free send buffer %d is %v, wire %d", t, m.seg.State(t), m.wire[t])
		}
	}
	for t := range m.segs {
		if m.segs[t].ep == nil && m.wire[t] != 0 {
			return fmt.Errorf("btl: send buffer %d is on the wire for nobody", t)
		}
	}
	for i, e := range m.events {
		if e.ep == nil {
			return fmt.Errorf("btl: event %d without endpoint", i)
		}
	}
	return m.checkLists()
}

// checkLists proves that the lists hold living endpoints only.
func (m *Module) checkLists() error {
	for link, l := range []*endpointList{linkReady: &m.ready, linkAcks: &m.acks} {
		n := 0
		for ep := l.first; ep != nil; ep = ep.links[link].next {
			if n++; m.slots[ep.slot] != ep {
				return fmt.Errorf("btl: list %d refers to an endpoint that is gone", link)
			}
			if link == linkReady && !ep.isReady || link == linkAcks && !ep.ackOwed {
				return fmt.Errorf("btl: endpoint on list %d does not know it", link)
			}
		}
		if n != l.count {
			return fmt.Errorf("btl: list %d of %d has %d members", link, l.count, n)
		}
	}
	for _, ep := range m.byTag {
		if m.slots[ep.slot] != ep {
			return fmt.Errorf("btl: a connection refers to an endpoint that is gone")
		}
	}
	for _, ep := range m.byAddr {
		if m.slots[ep.slot] != ep {
			return fmt.Errorf("btl: an address refers to an endpoint that is gone")
		}
	}
	return nil
}
