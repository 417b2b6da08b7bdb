package peer

import (
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// If a packet must be held back as a test for optimistic ACKs, post first removes this packet
// from the batch.
func (bu *Buffers) post(c *port.Channel) {
	if bu.Source.Due(c.Which()) {
		bu.withholdOne(c)
	}
	c.Post()
	bu.SettleSends()
}

// PostAll posts the batches of both channels, and also the free receive buffers.
func (bu *Buffers) PostAll() {
	for _, c := range [...]*port.Channel{&bu.Port.Command, &bu.Port.Data} {
		if bu.Source.Due(c.Which()) && c.Batched() > 0 {
			bu.withholdOne(c)
		}
	}
	bu.Port.Post()
	bu.SettleSends()
}

// withholdOne removes one packet from the batch, as a test for peers that acknowledge
// packets before their arrival (reliability.Sender.Withhold). A withheld packet must not
// have been sent before, and must be followed in the batch by another packet to the same
// peer.
func (bu *Buffers) withholdOne(c *port.Channel) {
	from := bu.Source.Withhold(c.Which())
	count := uint32(c.Batched())
	for i := range count {
		at := (from + i) % count
		if ep, n, ok := bu.withholdable(c.Batch(), at); ok {
			c.TakeOut(int(at))
			bu.SettleSends()
			ep.Snd.Withhold(n)
			bu.Count[stats.CntWithheld]++
			return
		}
	}
}

// withholdable reports whether the packet at index at of a batch may be held back, and returns
// the packet's endpoint and sequence number.
func (bu *Buffers) withholdable(batch []fabric.Send, at uint32) (ep *Endpoint, n seq.Num, ok bool) {
	s := &batch[at]
	if int(s.Buf) >= len(bu.Segs) || bu.Port.State(s.Buf) != port.Busy ||
		!port.GoesTo(batch[at+1:], s.To) {
		return nil, 0, false
	}
	t := SegToken(s.Buf)
	ep = bu.Segs[t].Ep
	if ep == nil || ep.ID.Counted || ep.ID.State() != StateConnected || !ep.Snd.Tests() ||
		bu.Recovery.State(t) != reliability.Posted || bu.Recovery.Resends(t) > 0 ||
		frag.CarriesAck(bu.Port.Arena.Bytes(s.Buf)) {
		return nil, 0, false
	}
	return ep, frag.SeqOf(bu.Port.Arena.Bytes(s.Buf)), true
}
