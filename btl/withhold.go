package btl

import (
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// withholdOne takes a packet out of the batch that was never sent, and is followed by another one
// to the same peer: see reliability.Sender.Withhold. It carries no ACK, which may be waited for.
func (c *channel) withholdOne() {
	c.withhold = false
	count := uint32(len(c.batch))
	for i := range count {
		at := (c.withholdFrom + i) % count
		if ep, n, ok := c.withholdable(at); ok {
			t := reliability.Token(c.batch[at].Buf)
			c.batch = append(c.batch[:at], c.batch[at+1:]...)
			ep.snd.Withhold(n)
			c.m.txDone(segBuf(t))
			c.m.stats.counters[CntWithheld]++
			return
		}
	}
}

// withholdable says whether the packet at a place of the batch may be withheld, whose it is, and
// its sequence number.
func (c *channel) withholdable(at uint32) (ep *Endpoint, n seq.Num, ok bool) {
	m, s := c.m, &c.batch[at]
	if int(s.Buf) >= len(m.segs) || m.tx[s.Buf] != txBusy || !goesTo(c.batch[at+1:], s.To) {
		return nil, 0, false
	}
	t := reliability.Token(s.Buf)
	ep = m.segs[t].ep
	if ep == nil || ep.counted || ep.state != stateConnected || !ep.snd.Tests() ||
		m.recovery.State(t) != reliability.Posted || m.recovery.Resends(t) > 0 ||
		frag.CarriesAck(m.arena.Bytes(s.Buf)) {
		return nil, 0, false
	}
	return ep, frag.SeqOf(m.arena.Bytes(s.Buf)), true
}
