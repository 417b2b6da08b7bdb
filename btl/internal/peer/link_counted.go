package peer

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/backoff"
	"gobtl/btl/internal/inbound"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/share"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// A counted link is used if the fabric is reliable and ordered, and the peer has announced
// a reliable and ordered fabric in its Hello (frag.FeatureReliable). Packets have no
// sequence numbers and no retransmission timers, and a send buffer is free when the fabric
// has completed the send.
//
// All data packets use the command channel, because the fabric keeps the order only within
// a channel. Both sides count the data packets. If the completion of a packet must be
// confirmed, the packet contains its count in the sequence number field. The receiver
// answers a packet that contains a count with an Ack packet, on the data channel, that
// contains the receiver's own count. Acks that renew credits also use the data channel.
// Credits prevent a slow peer from filling the fabric's queues, which all peers share. If
// the packet count in a header differs from the receiver's own count, the fabric has lost
// or reordered packets. In this case the connection ends with ErrLost.
//
// On a counted link, no data is sent before the peer's first Ack, which shows that the peer is
// ready to receive. A refused packet is counted too, and its Nack is sent before the Ack that
// covers the packet. A chunked fragment for which the peer had no memory is sent again as a whole.

type countedState struct {
	confirm   FragmentList    // completely sent, not acknowledged, oldest first
	Inbound   inbound.Counted // order of the peer's chunks, and refusals
	pause     backoff.Pause   // before a fragment is sent again (chunk_backoff.go)
	Held      int             // send buffers whose sends are not complete in the fabric
	showSince seq.Num         // the peer's next packet at the time of the latest Pack
	showAt    uint32          // number of messages at which a Pack is posted early until showSince
}

func (ln *Links) sealCounted(p *packet) int {
	ep, f, s := p.ep, p.frag, &ln.Buffers.Segs[p.seg]
	if ep.Snd.InFlight() == 0 {
		ep.Life.FirstInFlight(ln.Clock.Unpaused)
		if ep.Life.MayWatch() && !ep.Closing && ep.ID.Handshake() == nil {
			ln.Timers.Watches.Watch(ep, ln.Timers.Watches.Rules.AskEvery())
		}
	}
	n := ep.Snd.Count()
	p.Conn, p.Seq = ep.ID.Peer.Tag, 0
	last := p.Kind != frag.KindChunk ||
		p.OffsetBytes+uint32(p.PayloadLen) == p.SizeBytes &&
			p.Flags&frag.FlagOp == 0 // the notification is the last packet of an operation
	if f != nil && last {
		f.until = n
	}
	if f != nil && last || ep.Flushes.Len() > 0 && last {
		p.Seq = n
		ln.Count[stats.CntAsked]++
	}
	ep.sentIn = ln.Clock.Epoch
	p.Number = ep.Numbers.Take(&ln.Buffers.Source, viaCommand, 1)
	sizeBytes := ln.Writer.write(p, s)
	s.Frag = nil
	if s.GatherLen != 0 { // the fabric reads the caller's memory until completion
		s.Frag = f
		f.Out++
	}
	if p.Kind == frag.KindChunk && last { // counts the awaited ACK
		f.Out++
	}
	ln.Port.ReleaseWhenDone(SegBuf(p.seg))
	ep.Counts.Held++
	ln.Count[sentCounter[p.Kind&0x0F]]++
	return sizeBytes
}

// express posts a message over a reliable fabric immediately, in a control buffer instead of a send
// buffer. express returns false if the message cannot be sent now, for example because the fabric
// has no room. If express returns false, nothing has changed, except that a packet number may be
// skipped.
func (tx *Sender) express(ep *Endpoint, tag uint8, data []byte) bool {
	c := &tx.Port.Command
	b, free := tx.Port.PeekControl()
	if len(data)+frag.FragHeaderBytes > c.Caps().InjectBytes || !free || ep.Flushes.Len() > 0 ||
		!tx.fastOpen(ep, c, nil, true) || ep.Large.Queue.First != nil || ep.Snd.InFlight() == 0 {
		return false
	}
	if err := c.Inject(b, writeWhole(ep, b, tag, data), ep.CmdAddr); err != nil {
		if errors.Is(err, fabric.ErrAgain) {
			return false
		}
		tx.Count[stats.CntPostErrors]++
		tx.Timers.breakOffTo(ep)
		tx.Rest.Stir()
	}
	ep.Snd.Count()
	ep.sentIn = tx.Clock.Epoch
	tx.touch()
	tx.Rest.exchanged = true
	tx.Count[stats.CntSentFrag]++
	tx.Count[stats.CntSentPayloadBytes] += uint64(len(data))
	tx.Count[stats.CntSendsFast]++
	tx.Count[stats.CntDone]++
	return true
}

// roomOn returns the number of packets that the endpoint may put on channel c now. Over a reliable
// fabric, roomOn also takes into account the packets that the fabric has not sent yet, because
// other fabrics send packets immediately.
func (ep *Endpoint) roomOn(c *port.Channel) int {
	room := c.Room()
	if !ep.ID.Counted {
		return room
	}
	depth := c.Caps().TxDepth
	free := depth - c.Posted() - c.Batched()
	return min(room, share.MayAdd(ep.Counts.Held, free, depth, ep.all.Peers.Alone()))
}

// await makes f, and the fragments chained to f, wait for the ACK of the last packet of f.
func (c *countedState) await(f *Fragment, mixed bool) {
	for first := f; f != nil; {
		next := f.Next
		f.mixed = mixed
		f.until = first.until
		c.confirm.push(f)
		f = next
	}
}

// tellRefusals sends the queued Nacks, which must be sent before an Ack. tellRefusals returns false
// if the channel has no room for all Nacks.
func (ak *Acks) tellRefusals(ep *Endpoint) bool {
	if !ep.ID.Counted {
		return true
	}
	return ep.Counts.Inbound.Tell(func(r inbound.Refusal) bool {
		return ak.Writer.SendNack(ep, r.Seq, r.Reason, r.Tag)
	})
}

// OnConfirm handles an Ack over a reliable fabric, and ends the sends that are acknowledged.
func (st *Sent) OnConfirm(ep *Endpoint, h *frag.Header) {
	ep.Life.Confirmed()
	if ep.Snd.Confirm(st.Clock.Now, h.Ack, h.Credit) {
		ep.Life.Acked(st.Clock.Unpaused)
		for f := ep.Counts.confirm.First; f != nil && !h.Ack.Before(f.until); {
			if f.large && !f.put {
				ep.Counts.pause.Succeeded()
			}
			st.SegEnded(ep.Counts.confirm.Pop())
			f = ep.Counts.confirm.First
		}
		st.Flushes.checkFlushed(ep)
	}
	st.Sched.arm(ep)
}

// OnNackCounted handles a Nack over a reliable fabric. If the peer had no memory for a fragment,
// the fragment is sent again.
func (st *Sent) OnNackCounted(ep *Endpoint, h *frag.Header, payload []byte) {
	err, waits := ErrNoHandler, false
	access := h.Tag == frag.NackAccess || h.Tag == frag.NackBounds || h.Tag == frag.NackRight
	if access {
		err = ErrRemoteAccess
	}
	for f := ep.Counts.confirm.First; f != nil && !h.Seq.Before(f.until); f = f.Next {
		switch {
		case h.Seq != f.until:
		case h.Tag == frag.NackMemory:
			st.resendWhole(ep, f)
			return
		case h.Tag != frag.NackRecord || f.tag == payload[0] && !f.put:
			if f.Err, waits = err, !f.mixed; access {
				f.Err = f.accessError(h.Tag)
			}
			st.unanswered(f)
		}
	}
	if oldest, next := ep.Snd.Window(); !waits && h.Tag != frag.NackMemory &&
		!h.Seq.Before(oldest) && h.Seq.Before(next) {
		ep.FlushQueue().Refused(h.Seq, 1, err)
	}
}

func (st *Sent) abandonCounted(ep *Endpoint, err error) {
	ep.Snd.Forget()
	for f := ep.Counts.confirm.Pop(); f != nil; f = ep.Counts.confirm.Pop() {
		f.Err = err
		st.SegEnded(f)
	}
}

// BreakOff is called when the fabric could not send the packet in buffer b. If the packet belongs
// to a connection over a reliable fabric, BreakOff schedules the end of the endpoint. BreakOff does
// not end the endpoint itself, because BreakOff may be called within Send.
func (bu *Buffers) BreakOff(b fabric.Buf) {
	if ep := bu.owner(b); ep != nil {
		bu.Timers.breakOffTo(ep)
	}
}

// breakOffTo is called when the fabric could not send a packet to the peer of ep. If ep is
// connected over a reliable fabric, breakOffTo schedules the end of ep.
func (tm *Timers) breakOffTo(ep *Endpoint) {
	if ep.ID.Counted && ep.ID.State() == StateConnected {
		tm.Watches.Break(ep)
	}
}

func (c *Checker) checkCounted(ep *Endpoint) error {
	oldest, next := ep.Snd.Window()
	unconfirmed := ep.Snd.InFlight()
	r := ep.Counts
	switch {
	case ep.ID.State() != StateConnected && (unconfirmed > 0 || r.confirm.Count > 0):
		return fmt.Errorf("%d packets, %d fragments not confirmed in state %d", unconfirmed,
			r.confirm.Count, ep.ID.State())
	case ep.ID.State() == StateConnected && ep.owed() && !ep.Life.Runs():
		return fmt.Errorf("%d packets not confirmed, or no credits, and no timer", unconfirmed)
	case r.Held < 0 || r.Held > int(ep.Buffers):
		return fmt.Errorf("the fabric holds %d send buffers of %d", r.Held, ep.Buffers)
	case ep.Life.Watched() && !ep.Life.Runs():
		return fmt.Errorf("watched without a timer")
	case ep.Asm.Active() > 1:
		return fmt.Errorf("%d fragments arrive at a time", ep.Asm.Active())
	}
	count, before := 0, oldest
	for f := r.confirm.First; f != nil && count <= r.confirm.Count; f = f.Next {
		count++
		if f.State != FragSent || f.Ep != ep || f.until.Before(before) || !f.until.Before(next) {
			return fmt.Errorf("fragment in state %d waits for packet %d of [%d, %d)", f.State, f.until,
				before, next)
		}
		before = f.until
		c.meet(f)
		if f.unmet == 0 {
			return fmt.Errorf("fragment for packet %d waits for nothing", f.until)
		}
		f.unmet--
		c.refs++
	}
	if count != r.confirm.Count {
		return fmt.Errorf("%d fragments not confirmed, %d counted", count, r.confirm.Count)
	}
	return nil
}
