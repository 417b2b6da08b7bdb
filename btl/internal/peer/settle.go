package peer

import (
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/reliability"
)

// SettleSends handles the sends that the fabric has refused, and frees the buffers that the fabric
// no longer uses. If the fabric accepts packets again, SettleSends lets the flows send.
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

// letGo frees the buffer of a completed send.
func (bu *Buffers) letGo(b fabric.Buf) {
	if n, ok := bu.Port.Control(b); ok {
		bu.ctlOwner[n] = nil
		bu.Sched.SetBlocked(false) // a chunk may wait to be sent in several Part packets
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
// packets' retransmission timers. Timers of packets that the fabric refused during the latest
// call of Progress are not restarted, so that an unreachable peer is eventually declared dead.
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
