package btl

import (
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// If a packet must be held back as a test for optimistic ACKs, post first removes this packet
// from the batch.
func (m *Module) post(c *port.Channel) {
	if m.source.Due(c.Which()) {
		m.withholdOne(c)
	}
	c.Post()
	m.settleSends()
}

// postAll posts the batches of both channels, and posts the receive buffers that are free.
func (m *Module) postAll() {
	for _, c := range [...]*port.Channel{&m.port.Command, &m.port.Data} {
		if m.source.Due(c.Which()) && c.Batched() > 0 {
			m.withholdOne(c)
		}
	}
	m.port.Post()
	m.settleSends()
}

// withholdOne removes one packet from the batch, as a test for peers that acknowledge
// packets before their arrival (reliability.Sender.Withhold). A withheld packet must not
// have been sent before, and must be followed in the batch by another packet to the same
// peer.
func (m *Module) withholdOne(c *port.Channel) {
	from := m.source.Withhold(c.Which())
	count := uint32(c.Batched())
	for i := range count {
		at := (from + i) % count
		if ep, n, ok := m.withholdable(c.Batch(), at); ok {
			c.TakeOut(int(at))
			m.settleSends()
			ep.snd.Withhold(n)
			m.stats.counters[CntWithheld]++
			return
		}
	}
}

// withholdable reports whether the packet at index at of a batch may be held back, and returns
// the packet's endpoint and sequence number.
func (m *Module) withholdable(batch []fabric.Send, at uint32) (ep *Endpoint, n seq.Num, ok bool) {
	s := &batch[at]
	if int(s.Buf) >= len(m.segs) || m.port.State(s.Buf) != port.Busy ||
		!port.GoesTo(batch[at+1:], s.To) {
		return nil, 0, false
	}
	t := segToken(s.Buf)
	ep = m.segs[t].ep
	if ep == nil || ep.id.Counted || ep.id.State() != stateConnected || !ep.snd.Tests() ||
		m.recovery.State(t) != reliability.Posted || m.recovery.Resends(t) > 0 ||
		frag.CarriesAck(m.port.Arena.Bytes(s.Buf)) {
		return nil, 0, false
	}
	return ep, frag.SeqOf(m.port.Arena.Bytes(s.Buf)), true
}
