package peer

import (
	"errors"
	"syscall"

	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// The method "post" passes a channel's batch to the fabric. A packet that must be held back
// (numbered but not sent), as a test for optimistic ACKs, is first removed from the batch.
func (bu *Buffers) post(c *port.Channel) {
	if bu.Source.Due(c.Which) {
		bu.withholdOne(c)
	}
	c.Post()
	bu.SettleSends()
}

// PostAll posts the batches of the command channel and the data channel, and the free receive
// buffers.
func (bu *Buffers) PostAll() {
	for _, c := range [...]*port.Channel{&bu.Port.Command, &bu.Port.Data} {
		if bu.Source.Due(c.Which) && len(c.Batch) > 0 {
			bu.withholdOne(c)
		}
	}
	bu.Port.Post(bu.Clock.Now)
	bu.SettleSends()
}

// SettleSends handles the sends that the fabric has refused, and frees the buffers that the fabric
// no longer uses. If the fabric accepts packets again, SettleSends lets the flows (send queues)
// send.
func (bu *Buffers) SettleSends() {
	if !bu.Port.Settled() { // inlined: nearly always true
		bu.settleSome()
	}
}

func (bu *Buffers) settleSome() {
	refused := bu.Port.Refused()
	for i := range refused {
		r := &refused[i]
		bu.Count[stats.CntPostErrors]++
		bu.pathRefused(&r.Send, r.Err)
		bu.BreakOff(r.Send.Buf)
	}
	for _, b := range bu.Port.Done() {
		bu.letGo(b)
	}
	if bu.Port.Unstuck() {
		bu.Sched.SetBlocked(false)
	}
}

// pathRefused tells the path MTU search that the local system has refused a packet as too large
// (EMSGSIZE).
func (bu *Buffers) pathRefused(s *fabric.Send, err error) {
	if int(s.Buf) >= len(bu.segs) || !errors.Is(err, syscall.EMSGSIZE) {
		return
	}
	ep := bu.segs[s.Buf].ep
	if ep == nil || ep.ID.State != StateConnected {
		return
	}
	bu.Timers.Paths.Refused(ep, int(s.Len+s.RegionLen))
}

// BreakOff is called when the fabric could not send the packet in buffer b. If the packet belongs
// to a connection over a reliable fabric, BreakOff schedules the end of the endpoint. BreakOff does
// not end the endpoint immediately, because BreakOff can be called within a call of Send.
func (bu *Buffers) BreakOff(b fabric.Buf) {
	if ep := bu.owner(b); ep != nil {
		bu.Timers.breakOffTo(ep)
	}
}

// ownControl records that an endpoint over a reliable fabric must end if the fabric cannot send the
// packet in control buffer b.
func (bu *Buffers) ownControl(ep *Endpoint, b fabric.Buf) {
	if ep.ID.Counted {
		n, _ := bu.Port.Control(b)
		bu.ctlOwner[n] = ep
	}
}

// letGo frees the buffer of a completed send.
func (bu *Buffers) letGo(b fabric.Buf) {
	if n, ok := bu.Port.Control(b); ok {
		bu.ctlOwner[n] = nil
		bu.Sched.SetBlocked(false) // a chunk possibly waits for control buffers for its Parts
		return
	}
	if bu.segs[b].ep.ID.Counted {
		bu.segs[b].ep.Counts.Held--
	}
	f := bu.segs[b].frag // set only if the fragment waits for the send completion
	bu.release(reliability.Token(b))
	bu.Sent.chunksEnded(f, 1)
}

// LeaveLate posts the packets of a burst before Progress polls the channels, and restarts the
// retransmission timers of these packets. LeaveLate does not restart the timers of packets that the
// fabric has just refused, because a peer to which no packet can be sent must eventually be
// declared dead.
func (bu *Buffers) LeaveLate() {
	c, some := &bu.Port.Data, false
	for i := range c.Batch {
		b := c.Batch[i].Buf
		if c.Stuck || int(b) >= len(bu.segs) || bu.Port.State[b] != port.Busy {
			continue
		}
		if ep := bu.segs[b].ep; ep != nil && !ep.ID.Counted {
			ep.Snd.Leaves(bu.Clock.Now, reliability.Token(b))
			some = true
		}
	}
	if some {
		bu.post(c)
	}
}

// withholdOne removes one packet from the batch, as a test for peers that acknowledge packets
// before their arrival (reliability.Sender.Withhold). The packet that withholdOne removes was never
// sent, and a packet to the same peer follows it in the batch.
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

// withholdable reports whether the packet at the given index of a batch may be held back (numbered
// but not sent), and returns the packet's endpoint and sequence number.
func (bu *Buffers) withholdable(batch []fabric.Send, at uint32) (ep *Endpoint, n seq.Num, ok bool) {
	s := &batch[at]
	if int(s.Buf) >= len(bu.segs) || bu.Port.State[s.Buf] != port.Busy ||
		!port.GoesTo(batch[at+1:], s.To) {
		return nil, 0, false
	}
	t := reliability.Token(s.Buf)
	ep = bu.segs[t].ep
	if ep == nil || ep.ID.State != StateConnected || !ep.Snd.Tests() ||
		bu.Recovery.State(t) != reliability.Posted || bu.Recovery.Resends(t) > 0 ||
		frag.CarriesAck(bu.Port.Arena.Bytes(s.Buf)) {
		return nil, 0, false
	}
	return ep, frag.SeqOf(bu.Port.Arena.Bytes(s.Buf)), true
}
