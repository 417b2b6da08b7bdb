package btl

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/backoff"
	"gobtl/btl/internal/inbound"
	"gobtl/btl/internal/payload"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/share"
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
// ready to receive. A refused packet counts like any other packet, and its Nack is sent before
// the Ack that covers the packet. A chunked fragment for which the peer had no memory is sent
// again as a whole.

type countedState struct {
	confirm   fragmentList    // completely sent, not acknowledged, oldest first
	inbound   inbound.Counted // order of the peer's chunks, and refusals
	pause     backoff.Pause   // before a fragment is sent again (chunk_backoff.go)
	held      int             // send buffers whose sends are not complete in the fabric
	showSince seq.Num         // the peer's next packet at the time of the latest Pack
	showAt    uint32          // number of messages at which a Pack is posted early until showSince
}

func (m *Module) sealCounted(p *packet) int {
	ep, f, s := p.ep, p.frag, &m.segs[p.seg]
	if ep.snd.InFlight() == 0 {
		ep.life.FirstInFlight(m.clock.Unpaused)
		if ep.life.MayWatch() && !ep.closing && ep.id.Handshake() == nil {
			m.watches.Watch(ep, m.watches.Rules.AskEvery())
		}
	}
	n := ep.snd.Count()
	p.Conn, p.Seq = ep.id.Peer.Tag, 0
	last := p.Kind != frag.KindChunk ||
		p.OffsetBytes+uint32(p.PayloadLen) == p.SizeBytes &&
			p.Flags&frag.FlagOp == 0 // the notification is the last packet of an operation
	if f != nil && last {
		f.until = n
	}
	if f != nil && last || ep.flushes.Len() > 0 && last {
		p.Seq = n
		m.stats.counters[CntAsked]++
	}
	ep.sentIn = m.clock.Epoch
	p.Number = ep.numbers.Take(&m.source, viaCommand, 1)
	sizeBytes := m.write(p, s)
	s.frag = nil
	if s.gatherLen != 0 { // the fabric reads the caller's memory until completion
		s.frag = f
		f.out++
	}
	if p.Kind == frag.KindChunk && last { // counts the awaited ACK
		f.out++
	}
	m.port.ReleaseWhenDone(segBuf(p.seg))
	ep.counts.held++
	m.stats.counters[sentCounter[p.Kind&0x0F]]++
	return sizeBytes
}

// express posts a message at once over a counted link, in a control buffer instead of a send
// buffer. express returns false if the message cannot be sent at once, for example because the
// fabric has no room. If express returns false, nothing has changed, except that a packet number
// may be skipped.
func (ep *Endpoint) express(tag uint8, data []byte) bool {
	m := ep.m
	c := &m.port.Command
	b, free := m.port.PeekControl()
	if len(data)+frag.FragHeaderBytes > c.Caps().InjectBytes || !free || ep.flushes.Len() > 0 ||
		!ep.fastOpen(c, nil, true) || ep.large.queue.first != nil || ep.snd.InFlight() == 0 {
		return false
	}
	if err := c.Inject(b, writeWhole(ep, b, tag, data), ep.cmdAddr); err != nil {
		if errors.Is(err, fabric.ErrAgain) {
			return false
		}
		m.stats.counters[CntPostErrors]++
		m.breakOffTo(ep)
		m.stir()
	}
	ep.snd.Count()
	ep.sentIn = m.clock.Epoch
	m.touch()
	m.exchanged = true
	m.stats.counters[CntSentFrag]++
	m.stats.counters[CntSentPayloadBytes] += uint64(len(data))
	m.stats.counters[CntSendsFast]++
	m.stats.counters[CntDone]++
	return true
}

// roomOn returns the number of packets that the endpoint may put on channel c now. Other fabrics
// send packets at once.
func (ep *Endpoint) roomOn(c *port.Channel) int {
	room := c.Room()
	if !ep.id.Counted {
		return room
	}
	depth := c.Caps().TxDepth
	free := depth - c.Posted() - c.Batched()
	return min(room, share.MayAdd(ep.counts.held, free, depth, ep.m.peers.Alone()))
}

// await makes f, and the fragments chained to f, wait for the ACK of the last packet of f.
func (c *countedState) await(f *Fragment, mixed bool) {
	for first := f; f != nil; {
		next := f.next
		f.mixed = mixed
		f.until = first.until
		c.confirm.push(f)
		f = next
	}
}

func (m *Module) admitCounted(in *arrival) bool {
	ep := in.ep
	if ep.id.State() == stateLingering {
		return m.drop(CntDropState) // no packet may follow the peer's Bye
	}
	if why := inbound.WhyLost(&in.Header, &ep.rcv.Receiver, &ep.snd); why != nil {
		m.lost(ep, why)
		return false
	}
	ep.life.Heard(m.clock.Unpaused, int(m.rxVia))
	if in.Flags&frag.FlagAck != 0 {
		m.onConfirm(ep, &in.Header)
	}
	return true
}

// lost ends an endpoint with ErrLost after the fabric has lost or reordered a packet.
func (m *Module) lost(ep *Endpoint, why error) {
	m.drop(CntDropLost)
	m.endTelling(ep, frag.ByeBroken, EventFailed, fmt.Errorf("%w: %w", ErrLost, why))
}

func (m *Module) refusedBeforeCounted(in *arrival) bool {
	reason := in.ep.counts.inbound.WhyRefused(in.FragID)
	if reason == 0 {
		return false
	}
	m.drop(CntDropState)
	m.refuseCounted(in.ep, &in.Header, reason)
	return true
}

// assembleCounted performs the function assemble for a counted link, where chunks arrive in order.
func (m *Module) assembleCounted(in *arrival) (*frag.Message, bool) {
	ep, h := in.ep, &in.Header
	if why := ep.counts.inbound.Next(h, ep.asm.Active() > 0); why != nil {
		m.lost(ep, why)
		return nil, false
	}
	msg, err := ep.asm.Add(h, in.payload, true)
	switch {
	case errors.Is(err, frag.ErrBudget):
		m.drop(CntDropReassembly)
		m.refuseCounted(ep, h, frag.NackMemory)
		m.wantsMemory(ep)
		return nil, false
	case err != nil: // an error that no correct sender causes
		m.lost(ep, err)
		return nil, false
	}
	ep.counts.inbound.Came(h)
	return msg, true
}

// admitRecordsCounted checks the tags of the messages in a Pack before delivery. Messages without a
// handler are refused by a Nack for each tag, and the other messages are delivered. If the Pack is
// invalid, admitRecordsCounted ends the endpoint and returns false.
func (ep *Endpoint) admitRecordsCounted(in *arrival) bool {
	refused := &ep.m.refusedTags
	*refused = inbound.Tags{}
	for rest := in.payload; len(rest) > 0; {
		if frag.IsPiece(rest) { // counted links use no pieces
			ep.m.lost(ep, errors.New("a pack has a piece of a fragment"))
			return false
		}
		var tag uint8
		tag, _, rest = nextRecord(rest)
		if ep.m.handlers[tag] == nil {
			ep.counts.inbound.RefuseRecords(ep.rcv.Expected(), tag, refused)
		}
	}
	return true
}

// count counts a received data packet, where taken is true if the packet was accepted. A requested
// ACK is sent after Rules.AckDelay. For accepted chunks and accepted large packets, a requested ACK
// is due at once, because the sender's memory is in use until the ACK arrives.
func (m *Module) count(ep *Endpoint, h *frag.Header, taken bool) {
	ep.rcv.Count(m.clock.Now)
	switch {
	case h.Seq == 0:
	case taken && (h.Kind == frag.KindChunk || h.PayloadLen >= payload.GatherBytesMin):
		ep.rcv.AskAck(m.clock.Now, 0)
	default:
		ep.rcv.AskAck(m.clock.Now, m.rules.AckDelay)
	}
	if ep.rcv.AckDue() != Never {
		m.acks.Owe(&ep.rcv, m.clock.Now)
	}
}

// refuseCounted counts a refused packet and queues a Nack, which is sent before the next Ack.
func (m *Module) refuseCounted(ep *Endpoint, h *frag.Header, reason uint8) {
	n := ep.rcv.Expected()
	m.count(ep, h, false)
	ep.counts.inbound.Refuse(n, h, reason)
	if h.Kind == frag.KindChunk {
		ep.asm.Forget(h.FragID)
	}
}

// tellRefusals sends the queued Nacks, which must be sent before an Ack. tellRefusals returns false
// if the channel has no room for all Nacks.
func (m *Module) tellRefusals(ep *Endpoint) bool {
	if !ep.id.Counted {
		return true
	}
	return ep.counts.inbound.Tell(func(r inbound.Refusal) bool {
		return m.sendNack(ep, r.Seq, r.Reason, r.Tag)
	})
}

// onConfirm handles an Ack on a counted link, and ends the sends that are acknowledged.
func (m *Module) onConfirm(ep *Endpoint, h *frag.Header) {
	ep.life.Confirmed()
	if ep.snd.Confirm(m.clock.Now, h.Ack, h.Credit) {
		ep.life.Acked(m.clock.Unpaused)
		for f := ep.counts.confirm.first; f != nil && !h.Ack.Before(f.until); {
			if f.large && !f.put {
				ep.counts.pause.Succeeded()
			}
			m.segEnded(ep.counts.confirm.pop())
			f = ep.counts.confirm.first
		}
		ep.checkFlushed()
	}
	m.sched.arm(ep)
}

// onNackCounted handles a Nack on a counted link. If the peer had no memory for a fragment, the
// fragment is sent again.
func (m *Module) onNackCounted(in *arrival) {
	ep, h := in.ep, &in.Header
	err, waits := ErrNoHandler, false
	access := h.Tag == frag.NackAccess || h.Tag == frag.NackBounds || h.Tag == frag.NackRight
	if access {
		err = ErrRemoteAccess
	}
	for f := ep.counts.confirm.first; f != nil && !h.Seq.Before(f.until); f = f.next {
		switch {
		case h.Seq != f.until:
		case h.Tag == frag.NackMemory:
			m.resendWhole(ep, f)
			return
		case h.Tag != frag.NackRecord || f.tag == in.payload[0] && !f.put:
			if f.err, waits = err, !f.mixed; access {
				f.err = f.accessError(h.Tag)
			}
			m.unanswered(f)
		}
	}
	if oldest, next := ep.snd.Window(); !waits && h.Tag != frag.NackMemory &&
		!h.Seq.Before(oldest) && h.Seq.Before(next) {
		ep.flushQueue().Refused(h.Seq, 1, err)
	}
}

func (m *Module) abandonCounted(ep *Endpoint, err error) {
	ep.snd.Forget()
	for f := ep.counts.confirm.pop(); f != nil; f = ep.counts.confirm.pop() {
		f.err = err
		m.segEnded(f)
	}
}

// breakOff is called when the fabric could not send the packet in buffer b. If the packet belongs
// to a counted link, breakOff makes the endpoint end soon, because breakOff may be called within
// Send.
func (m *Module) breakOff(b fabric.Buf) {
	if ep := m.owner(b); ep != nil {
		m.breakOffTo(ep)
	}
}

// breakOffTo makes ep end soon after the fabric could not send a packet to the peer, if ep has a
// counted link.
func (t *peerTimers) breakOffTo(ep *Endpoint) {
	if ep.id.Counted && ep.id.State() == stateConnected {
		t.watches.Break(ep)
	}
}

func (c *checker) checkCounted(ep *Endpoint) error {
	oldest, next := ep.snd.Window()
	unconfirmed := ep.snd.InFlight()
	r := ep.counts
	switch {
	case ep.id.State() != stateConnected && (unconfirmed > 0 || r.confirm.count > 0):
		return fmt.Errorf("%d packets, %d fragments not confirmed in state %d", unconfirmed,
			r.confirm.count, ep.id.State())
	case ep.id.State() == stateConnected && ep.owed() && !ep.life.Runs():
		return fmt.Errorf("%d packets not confirmed, or no credits, and no timer", unconfirmed)
	case r.held < 0 || r.held > ep.buffers:
		return fmt.Errorf("the fabric holds %d send buffers of %d", r.held, ep.buffers)
	case ep.life.Watched() && !ep.life.Runs():
		return fmt.Errorf("watched without a timer")
	case ep.asm.Active() > 1:
		return fmt.Errorf("%d fragments arrive at a time", ep.asm.Active())
	}
	count, before := 0, oldest
	for f := r.confirm.first; f != nil && count <= r.confirm.count; f = f.next {
		count++
		if f.state != fragSent || f.ep != ep || f.until.Before(before) || !f.until.Before(next) {
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
