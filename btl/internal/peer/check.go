package peer

import (
	"fmt"

	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/internal/mono"
	"gobtl/reliability"
)

// Check verifies the whole state of a module's services and endpoints, and returns an error if the
// state is inconsistent. The argument "closed" of Check says whether the fabric is closed.
func (c *Checker) Check(all *Services, closed bool) error {
	c.reset(all)
	c.closed = closed
	if err := all.Clock.Check(); err != nil {
		return err
	}
	if err := all.Recovery.Check(); err != nil {
		return err
	}
	if err := c.checkFreeBuffers(all); err != nil {
		return err
	}
	if err := all.Frags.checkFree(c); err != nil {
		return err
	}
	for slot, ep := range all.Peers.All() {
		if ep == nil {
			continue
		}
		if ep.All != all || int(ep.ID.Slot()) != slot {
			return fmt.Errorf("slot %d holds an endpoint of slot %d", slot, ep.ID.Slot())
		}
		if err := c.checkEndpoint(all, ep); err != nil {
			return fmt.Errorf("endpoint %d: %w", slot, err)
		}
	}
	for _, step := range [...]func(*Services) error{
		c.checkTables, c.checkOutbox, c.checkWanting, c.checkPauses, c.checkSegments, c.checkParts,
	} {
		if err := step(all); err != nil {
			return err
		}
	}
	if err := all.Remote.Check(); err != nil {
		return err
	}
	return all.Frags.Payloads.Check(c.regions)
}

func (c *Checker) checkParts(all *Services) error {
	if err := all.Frags.check(c, all.Config.FragmentsMax); err != nil {
		return err
	}
	if err := all.Sched.check(c, &all.Peers); err != nil {
		return err
	}
	return all.Acks.Check(c.acks, all.Clock.Now)
}

func (c *Checker) checkEndpoint(all *Services, ep *Endpoint) error {
	if err := c.checkState(all, ep); err != nil {
		return err
	}
	if err := c.checkLink(all, ep); err != nil {
		return err
	}
	if err := c.checkAsks(ep); err != nil {
		return err
	}
	if err := c.checkPack(all, ep); err != nil {
		return err
	}
	for _, f := range [...]*flow{&ep.small, &ep.large.flow} {
		if err := c.checkFlow(all, f); err != nil {
			return err
		}
		if err := c.checkQueue(all, f); err != nil {
			return err
		}
	}
	if err := ep.Rcv.Tally(&c.acks); err != nil {
		return err
	}
	if err := ep.Rcv.CheckState(); err != nil {
		return err
	}
	charged := ep.Rcv.Booked()
	c.charged += charged
	if ep.joined {
		c.joined++
	} else if charged != 0 {
		return fmt.Errorf("%d credits without a share", charged)
	}
	if err := ep.Asm.Check(); err != nil {
		return err
	}
	c.asmBytes += ep.Asm.ActiveBytes()
	if ep.ID.State != StateConnected && ep.Asm.Active() > 0 {
		return fmt.Errorf("%d fragments arrive in state %d", ep.Asm.Active(), ep.ID.State)
	}
	return ep.checkFlushes()
}

func (c *Checker) checkState(all *Services, ep *Endpoint) error {
	state, shakes := ep.ID.State, ep.ID.Handshake != nil
	handshake := state == stateConnecting || state == stateAccepting
	switch {
	case all.Peers.Lookup(ep.ID.Tag) != ep:
		return fmt.Errorf("its tag %#x is not its own", ep.ID.Tag)
	case ep.joined != (ep.ID.State == StateConnected):
		return fmt.Errorf("in state %d, has a share of the credits: %v", ep.ID.State, ep.joined)
	case (ep.Err() != nil) != (ep.ID.State == StateLingering):
		return fmt.Errorf("in state %d, has ended: %v", ep.ID.State, ep.Err() != nil)
	case handshake && !shakes || state == StateLingering && shakes:
		return fmt.Errorf("in state %d, has a handshake: %v", ep.ID.State, ep.ID.Handshake != nil)
	case ep.ID.Handshake != nil && ep.ID.Handshake.Check() != nil:
		return ep.ID.Handshake.Check()
	case ep.closeAt() > all.Clock.Unpaused:
		return fmt.Errorf("closes since %d, and it is %d", ep.closeAt(), all.Clock.Unpaused)
	case ep.Life.Check(all.Clock.Unpaused) != nil:
		return ep.Life.Check(all.Clock.Unpaused)
	case ep.Rcv.Owed != (ep.Rcv.AckDue() != mono.Never):
		return fmt.Errorf("owes an ACK: %v, due %d", ep.Rcv.Owed, ep.Rcv.AckDue())
	}
	if ep.Life.Runs() {
		c.timers++
		if err := all.Timers.Watches.Check(ep); err != nil {
			return err
		}
	} else if shakes || ep.Closing || ep.Life.Superseded || state != StateConnected ||
		all.Config.KeepAlive > 0 {
		return fmt.Errorf("has no timer in state %d (closing %v, superseded %v)", state, ep.Closing,
			ep.Life.Superseded)
	}
	return nil
}

func (*Checker) checkFlow(all *Services, f *flow) error {
	ep := f.Owner
	if f == &noLarge.flow {
		return nil
	}
	ahead := ep.large.balance.Bytes()
	switch {
	case f.Listed() != f.may():
		return fmt.Errorf("ready: %v, with %d fragments queued in state %d, window open: %v",
			f.Listed(), f.queue.count, ep.ID.State, ep.Snd.Open())
	case max(f.Deficit, ahead-all.Port.Data.MTUBytes) > all.Sender.quantum() ||
		min(f.Deficit, ahead) < -2*all.Port.Data.MTUBytes:
		return fmt.Errorf("a deficit of %d bytes, a balance of %d, with a quantum of %d",
			f.Deficit, ahead, all.Sender.quantum())
	}
	return nil
}

func (c *Checker) checkQueue(all *Services, fl *flow) error {
	count := 0
	ep, q := fl.Owner, &fl.queue
	for f := q.first; f != nil; f = f.next {
		count++
		switch {
		case f.state != fragQueued || f.Ep != ep || ep.flowOf(f) != fl:
			return fmt.Errorf("fragment in state %d queued", f.state)
		case f.cursor > f.size || f.out > 0 && !ep.ID.Counted &&
			(f != q.first || !f.large):
			return fmt.Errorf("fragment with %d of %d bytes sent stands at %d of the queue", f.cursor,
				f.size, count)
		case f.next == nil && q.last != f || count > q.count:
			return fmt.Errorf("queue of %d has another end", q.count)
		case f.hasSeg && (c.places[f.seg] != placeNone ||
			all.Recovery.State(f.seg) != reliability.Queued ||
			all.Buffers.segs[f.seg].ep != nil || all.Port.State[fabric.Buf(f.seg)] != 0):
			return fmt.Errorf("queued fragment's segment %d is %v, %v, wire %d", f.seg, c.places[f.seg],
				all.Recovery.State(f.seg), all.Port.State[fabric.Buf(f.seg)])
		case f.out > 0:
			c.meet(f)
		case !f.internal():
			c.frags[fragQueued]++
			if f.Data.Registered() { // the packets sent so far are acknowledged
				c.regions++
			}
		case f.Data.Registered():
			c.regions++
		}
		if f.hasSeg {
			c.places[f.seg] = placeQueued
			c.held[ep.ID.Slot()]++
		}
	}
	if count != q.count {
		return fmt.Errorf("queue of %d has %d members", q.count, count)
	}
	return nil
}

func (c *Checker) checkPack(all *Services, ep *Endpoint) error {
	p := &ep.pack
	if err := p.Check(all.Packs.packBytesMax(ep)); err != nil {
		return err
	}
	if !p.Open() {
		if *p != (openPack{}) {
			return fmt.Errorf("no pack is open, and send buffer %d is its own", p.seg)
		}
		return nil
	}
	s := &all.Buffers.segs[p.seg]
	switch {
	case ep.ID.State != StateConnected || !ep.Snd.Admits():
		return fmt.Errorf("a pack is open in state %d, admitted: %v", ep.ID.State, ep.Snd.Admits())
	case c.places[p.seg] != placeNone || all.Recovery.State(p.seg) != reliability.Queued ||
		all.Port.State[fabric.Buf(p.seg)] != 0 || s.ep != ep || !s.pack || s.void || s.strip:
		return fmt.Errorf("the open pack's segment %d is %v, %v, wire %d", p.seg, c.places[p.seg],
			all.Recovery.State(p.seg), all.Port.State[fabric.Buf(p.seg)])
	case (s.frag == nil) != (p.last == nil) || p.last != nil && p.last.next != nil:
		return fmt.Errorf("the chain of the open pack has another end")
	}
	c.places[p.seg] = placePack
	c.packs++
	c.held[ep.ID.Slot()]++
	return nil
}

func (c *Checker) checkTables(all *Services) error {
	if c.timers != all.Timers.Watches.Len() {
		return fmt.Errorf("%d endpoints have a timer, %d run", c.timers, all.Timers.Watches.Len())
	}
	if err := all.Peers.Check(); err != nil {
		return err
	}
	if err := all.Handshakes.CheckRequests(); err != nil {
		return err
	}
	switch {
	case c.charged != all.Credits.Granted():
		return fmt.Errorf("%d credits granted to the endpoints, %d counted", c.charged,
			all.Credits.Granted())
	case c.joined != all.Credits.Peers():
		return fmt.Errorf("%d endpoints share the credits, %d counted", c.joined, all.Credits.Peers())
	case c.asmBytes != all.Pool.ActiveBytes():
		return fmt.Errorf("%d bytes of reassembly of the endpoints, %d in use", c.asmBytes,
			all.Pool.ActiveBytes())
	}
	if err := all.Credits.Check(); err != nil {
		return err
	}
	return all.Pool.Check()
}

// CheckStats verifies the counters after Check. The argument "deferred" of CheckStats says whether
// a packet was delivered to its handler, but is not counted as received yet.
func (c *Checker) CheckStats(all *Services, deferred bool) error {
	n := all.Count
	waiting := int64(0) // packets that ReceiveFast has delivered, and FinishDeferred has not counted
	if deferred {
		waiting = 1
	}
	sends := n[stats.CntSendsFast] + n[stats.CntSendsPacked] + n[stats.CntSendsQueued]
	under := uint64(c.frags[fragQueued] + c.frags[fragSent])
	switch u := n.Unaccounted(); {
	case u != waiting:
		return fmt.Errorf("%d packets received that no counter explains, %d deferred", u, waiting)
	case sends != n[stats.CntDone]+n[stats.CntFailed]+under:
		return fmt.Errorf("%d sends accepted, %d done, %d failed, %d under way", sends, n[stats.CntDone],
			n[stats.CntFailed], under)
	case n[stats.CntRetransmitDupAck] > n[stats.CntDupAcks]:
		return fmt.Errorf("%d resends for %d duplicate ACKs", n[stats.CntRetransmitDupAck],
			n[stats.CntDupAcks])
	case n[stats.CntRetransmitNack] > n[stats.CntRecvNack]:
		return fmt.Errorf("%d resends for %d Nacks", n[stats.CntRetransmitNack], n[stats.CntRecvNack])
	case n[stats.CntFastReceives] > min(n[stats.CntReceived], n[stats.CntDelivered]):
		return fmt.Errorf("%d received, %d of them fast, %d delivered", n[stats.CntReceived],
			n[stats.CntFastReceives], n[stats.CntDelivered])
	}
	return nil
}
