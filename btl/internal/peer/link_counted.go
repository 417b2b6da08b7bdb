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

// A connection is a counted link if the fabric is reliable and ordered, and the peer has announced
// a reliable and ordered fabric in its Hello (frag.FeatureReliable). The packets of a counted link
// have no sequence numbers and no retransmission timers. A send buffer of a counted link is free
// when the fabric has completed the send.
//
// All data packets of a counted link use the command channel, because the fabric keeps the order
// only within a channel. Both sides of a counted link count the data packets. A packet that
// requests an Ack contains the sender's packet count in the sequence number field. The receiver
// answers on the data channel with an Ack packet, which contains the receiver's packet count. All
// Acks of a counted link, including those that renew credits, use the data channel. The credits
// keep a slow peer from filling the fabric's queues, which all peers share. If the packet count in
// a header differs from the receiver's packet count, the fabric has lost or reordered packets, and
// the connection ends with ErrLost.
//
// On a counted link, no data is sent before the peer's first Ack, which shows that the peer is
// ready to receive. Packets that the receiver refuses are counted like accepted packets. The Nack
// for a refused packet is sent before the Ack that covers the packet. If the peer had no memory for
// a fragment of several chunks, the whole fragment is sent again.

type countedState struct {
	confirm   fragmentList    // fragments sent whole and not acknowledged, oldest first
	Inbound   inbound.Counted // order of the peer's chunks, and the Nacks for the peer
	nacks     nacks           // received from the peer
	pause     backoff.Pause   // pause before a refused fragment is sent again (chunk_backoff.go)
	Held      int             // send buffers whose sends are not complete in the fabric
	postSince seq.Num         // value of Rcv.Expected when postAt was last reset
	postAt    uint32          // number of messages at which an unfilled Pack is posted
}

// The type "nacks" records the latest Nack of the peer. Because the peer sends Nacks in the order
// of the refused packets, the search for the fragment of a Nack begins after the fragment of the
// previous Nack.
type nacks struct {
	some   bool         // the latest Nack is for a packet that is not acknowledged
	latest seq.Num      // the packet of the latest Nack
	told   inbound.Tags // the tags that the peer has refused in the packet "latest"
	passed *Fragment    // the last fragment in "confirm" that ends before the packet "latest"
}

// In nacks.told, the tag wholePacket stands for all messages of a packet. The tag wholePacket is
// never the tag of a message.
const wholePacket = frag.TagBye

// isNew records a Nack for packet n. The argument "tag" of isNew is the refused tag, or
// wholePacket. isNew returns false for a repeated Nack, and for the Nack of a packet that was sent
// before the packet of the latest Nack.
func (k *nacks) isNew(n seq.Num, tag uint8) bool {
	if k.some && (n.Before(k.latest) || n == k.latest && k.told.Has(tag)) {
		return false
	}
	if !k.some || n != k.latest {
		k.some, k.latest, k.told = true, n, inbound.Tags{}
	}
	k.told.Add(tag)
	return true
}

// The method "acked" forgets the latest Nack if the peer has acknowledged the refused packet.
func (k *nacks) acked(until seq.Num) { k.some = k.some && until.Before(k.latest) }

// refused returns the first fragment that ends in packet n or in a packet after n, and the fragment
// before it in the list "confirm".
func (c *countedState) refused(n seq.Num) (f, before *Fragment) {
	f, before = c.confirm.first, c.nacks.passed
	if before != nil {
		f = before.next
	}
	for ; f != nil && f.until.Before(n); f = f.next {
		before = f
	}
	c.nacks.passed = before
	return f, before
}

// confirmed removes the first fragment that waits for an ACK, and returns the removed fragment.
func (c *countedState) confirmed() *Fragment {
	f := c.confirm.pop()
	if f == c.nacks.passed {
		c.nacks.passed = nil
	}
	return f
}

func (ln Links) sealCounted(p *packet) int {
	ep, f, s := p.ep, p.frag, &ln.Buffers.segs[p.seg]
	if ep.Snd.InFlight() == 0 {
		ep.Life.FirstInFlight(ln.Clock.Unpaused)
		if ep.Life.MayWatch() && !ep.Closing && ep.ID.Handshake == nil {
			ln.Timers.Watches.Watch(ep, ln.Timers.Watches.Rules.AskEvery())
		}
	}
	n := ep.Snd.Count()
	p.Conn, p.Seq = ep.ID.Peer.Tag, 0
	last := p.Kind != frag.KindChunk ||
		p.OffsetBytes+uint32(p.PayloadLen) == p.SizeBytes &&
			p.Flags&frag.FlagOp == 0 // the notice is the last packet of an operation
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
	s.frag = nil
	if s.gatherLen != 0 { // the fabric reads the caller's memory until completion
		s.frag = f
		f.out++
	}
	if p.Kind == frag.KindChunk && last { // counts the awaited ACK
		f.out++
	}
	ln.Port.ReleaseWhenDone(fabric.Buf(p.seg))
	ep.Counts.Held++
	ln.Count[sentCounter[p.Kind&0x0F]]++
	return sizeBytes
}

// express posts a message over a reliable fabric immediately, in a control buffer instead of a send
// buffer. express reports whether it has posted the message, which can fail, for example, because
// the fabric has no room. If express returns false, the endpoint's state is unchanged, except that
// a packet number is possibly skipped.
func (tx Sender) express(ep *Endpoint, tag uint8, data []byte) bool {
	c := &tx.Port.Command
	b, free := tx.Port.PeekControl()
	if len(data)+frag.FragHeaderBytes > c.Caps.InjectBytes || !free || ep.Flushes.Len() > 0 ||
		!tx.fastOpen(ep, c, nil, true) || ep.large.queue.first != nil || ep.Snd.InFlight() == 0 {
		return false
	}
	if err := c.Inject(b, writeWhole(ep, b, tag, data), ep.cmdAddr); err != nil {
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

// roomOn returns the number of packets that the endpoint may send on channel c at present. Over a
// reliable fabric, which queues packets, roomOn also limits the number of the endpoint's sends that
// the fabric has not completed.
func (ep *Endpoint) roomOn(c *port.Channel) int {
	room := c.Room()
	if !ep.ID.Counted {
		return room
	}
	depth := c.Caps.TxDepth
	free := depth - c.Posted - len(c.Batch)
	return min(room, share.MayAdd(ep.Counts.Held, free, depth, ep.All.Peers.Sole()))
}

// await makes fragment f, and the fragments linked to f by the field "next", wait for the ACK of
// the last packet of f.
func (c *countedState) await(f *Fragment, hasUntold bool) {
	for first := f; f != nil; {
		next := f.next
		f.hasUntold = hasUntold
		f.until = first.until
		c.confirm.push(f)
		f = next
	}
}

// tellRefusals sends the queued Nacks, which must be sent before the next Ack, and reports whether
// the channel had room for all of these Nacks.
func (ak *Acks) tellRefusals(ep *Endpoint) bool {
	if !ep.ID.Counted {
		return true
	}
	return ep.Counts.Inbound.Tell(func(r inbound.Refusal) bool {
		return ak.Writer.SendNack(ep, r.Seq, r.Reason, r.Tag)
	})
}

// breakOffTo is called when the fabric could not send a packet to the peer of the endpoint ep. If
// ep is connected over a reliable fabric, breakOffTo schedules the end of ep.
func (tm *Timers) breakOffTo(ep *Endpoint) {
	if ep.ID.Counted && ep.ID.State == StateConnected {
		tm.Watches.Break(ep)
	}
}

func (c *Checker) checkCounted(ep *Endpoint) error {
	oldest, next := ep.Snd.Window()
	unconfirmed := ep.Snd.InFlight()
	r := ep.Counts
	switch {
	case ep.ID.State != StateConnected && (unconfirmed > 0 || r.confirm.count > 0):
		return fmt.Errorf("%d packets, %d fragments not confirmed in state %d", unconfirmed,
			r.confirm.count, ep.ID.State)
	case ep.ID.State == StateConnected && ep.owed() && !ep.Life.Runs():
		return fmt.Errorf("%d packets not confirmed, or no credits, and no timer", unconfirmed)
	case r.Held < 0 || r.Held > int(ep.buffers):
		return fmt.Errorf("the fabric holds %d send buffers of %d", r.Held, ep.buffers)
	case ep.Life.Watched && !ep.Life.Runs():
		return fmt.Errorf("watched without a timer")
	case ep.Asm.Active() > 1:
		return fmt.Errorf("%d fragments arrive at a time", ep.Asm.Active())
	}
	count, before := 0, oldest
	for f := r.confirm.first; f != nil && count <= r.confirm.count; f = f.next {
		count++
		if f.state != fragSent || f.Ep != ep || f.until.Before(before) || !f.until.Before(next) {
			return fmt.Errorf("fragment in state %d waits for packet %d of [%d, %d)", f.state, f.until,
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
	if count != r.confirm.count {
		return fmt.Errorf("%d fragments not confirmed, %d counted", count, r.confirm.count)
	}
	return nil
}
