package peer

import (
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// withholdOne removes one packet from the batch, as a test for peers that acknowledge packets
// before their arrival (reliability.Sender.Withhold). The packet that withholdOne removes must not
// have been sent before, and must be followed in the batch by another packet to the same peer.
func (bu *Buffers) withholdOne(c *port.Channel) {
	from := bu.Source.Withhold(c.Which)
	count := uint32(len(c.Batch))
	for i := range count {
		at := (from + i) % count
		if ep, n, ok := bu.withholdable(c.Batch, at); ok {
			c.TakeOut(int(at))
			bu.SettleSends()
			ep.Snd.Withhold(n)
			bu.Count[stats.CntWithheld]++
			return
		}
	}
}

// withholdable reports whether the packet at the given index of a batch may be held back (not
// sent), and returns the packet's endpoint and sequence number.
func (bu *Buffers) withholdable(batch []fabric.Send, at uint32) (ep *Endpoint, n seq.Num, ok bool) {
	s := &batch[at]
	if int(s.Buf) >= len(bu.segs) || bu.Port.State[s.Buf] != port.Busy ||
		!port.GoesTo(batch[at+1:], s.To) {
		return nil, 0, false
	}
	t := reliability.Token(s.Buf)
	ep = bu.segs[t].ep
	if ep == nil || ep.ID.Counted || ep.ID.State != StateConnected || !ep.Snd.Tests() ||
		bu.Recovery.State(t) != reliability.Posted || bu.Recovery.Resends(t) > 0 ||
		frag.CarriesAck(bu.Port.Arena.Bytes(s.Buf)) {
		return nil, 0, false
	}
	return ep, frag.SeqOf(bu.Port.Arena.Bytes(s.Buf)), true
}
