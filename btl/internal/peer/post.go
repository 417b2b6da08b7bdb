package peer

import "gobtl/btl/internal/port"

// The method "post" passes a channel's batch to the fabric. A packet that must be held back, as a
// test for optimistic ACKs, is first removed from the batch.
func (bu *Buffers) post(c *port.Channel) {
	if bu.Source.Due(c.Which) {
		bu.withholdOne(c)
	}
	c.Post()
	bu.SettleSends()
}

// PostAll posts the batches of both channels, and also the free receive buffers.
func (bu *Buffers) PostAll() {
	for _, c := range [...]*port.Channel{&bu.Port.Command, &bu.Port.Data} {
		if bu.Source.Due(c.Which) && len(c.Batch) > 0 {
			bu.withholdOne(c)
		}
	}
	bu.Port.Post(bu.Clock.Now)
	bu.SettleSends()
}
