package btl

import (
	"errors"
	"fmt"

	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// A reliable endpoint is one whose fabric is reliable and ordered by itself, and whose peer has
// announced the same in its Hello (frag.FeatureReliable). What the transport does elsewhere to
// recover from losses is off: packets have no sequence numbers, no ACKs and no timers, and a send
// buffer is free as soon as the fabric has let go of it.
//
// All packets take the command channel, one behind the other, for only there the fabric keeps their
// order. Both sides count them. A packet for whose end somebody waits carries its count in the
// place of the sequence number, and so asks for a confirmation: an Ack with the receiver's count,
// which comes alone, on the data channel, as does one that renews the credits. (These stay: a
// fabric that is out of room for one peer refuses the packets for all, so no peer that is slow may
// take that room.) A packet whose count is not the receiver's own means that the fabric did not
// keep its promise: that ends the connection with ErrLost.
//
// Nothing can come again by itself. So nothing is sent before the peer's first Ack, which says that
// it will take what comes; a refused packet counts as any other, its Nack goes ahead of the Ack
// that confirms it; and a fragment in chunks for which the peer had no memory is sent anew as a
// whole.

// reliableState is what only reliable endpoints have.
type reliableState struct {
	confirm  fragmentList  // sent whole, not confirmed, oldest first
	held     int           // send buffers that the fabric has
	nacks    []pendingNack // refusals that the peer is to be told before the next Ack
	failed   uint8         // reason for which the fragment failedID is refused; 0: none is
	failedID uint32
	// Of the fragment in chunks that is arriving, if there is one: its id, and where it goes on.
	arriving, arrived uint32
	watched           bool // the endpoint's timer is that of watch
	broken            bool // the fabric could not carry a packet
}

// pendingNack is a Nack to be sent. The peer's credits, which no Ack renews before, bound them: who
// sends without any is not listened to.
type pendingNack struct {
	seq         seq.Num
	reason, tag uint8
}

// agree decides by the peer's Hello whether the endpoint is reliable. What a reliable one may send,
// its peer's first Ack tells.
func (m *Module) agree(ep *Endpoint, hello *frag.Hello) {
	ep.reliable = m.reliable && hello.Features&frag.FeatureReliable != 0
	if ep.reliable {
		ep.tiny = ep.mtu // all goes one way
		ep.snd.Unbind()
	} else {
		ep.snd.Grant(hello.Credit)
	}
}

// busy says whether send buffers of the endpoint are under way, which will be free again.
func (ep *Endpoint) busy() bool {
	if ep.reliable {
		return ep.rel.held > 0
	}
	return ep.snd.InFlight() > 0
}

// mayClose says whether a goodbye may be sent. A reliable endpoint keeps it until everything before
// is confirmed: of that something may have to be sent again.
func (ep *Endpoint) mayClose() bool { return !ep.reliable || ep.rel.confirm.first == nil }

// confirmChain has the fragments of a pack, which are told of its end, wait for the confirmation.
func (ep *Endpoint) confirmChain(f *Fragment) {
	for until := f; f != nil; {
		next := f.next
		f.until = until.until
		ep.rel.confirm.push(f)
		f = next
	}
}

// receiveReliable is receive for a reliable endpoint.
func (m *Module) receiveReliable(in *arrival) {
	ep, h := in.ep, &in.Header
	if ep.state == stateLingering {
		m.drop(CntDropState) // the peer said goodbye: nothing may follow
		return
	}
	if why := ep.whyLost(h); why != nil {
		m.lost(ep, why)
		return
	}
	m.heard(ep)
	if h.Flags&frag.FlagAck != 0 {
		m.onConfirm(ep, h)
	}
	switch h.Kind {
	case frag.KindAck:
		m.stats.counters[CntRecvAck]++
	case frag.KindNack:
		m.stats.counters[CntRecvNack]++
		m.onNackReliable(in)
	case frag.KindPack:
		m.acceptReliablePack(in)
	default:
		m.acceptReliable(in)
	}
}

// whyLost says how a packet shows that not all arrive once and in order, nil if it does not.
func (ep *Endpoint) whyLost(h *frag.Header) error {
	data := h.Kind.HasSeq()
	switch {
	case data && h.Seq != 0 && h.Seq != ep.rcv.Expected():
		return fmt.Errorf("packet %d came, %d was the next one", h.Seq, ep.rcv.Expected())
	case data && h.Tag != frag.TagVoid && !ep.rcv.Credited():
		return fmt.Errorf("packet %d came without a credit", ep.rcv.Expected())
	case h.Flags&frag.FlagAck != 0 && !ep.snd.Plausible(h.Ack):
		return fmt.Errorf("packet %d is acknowledged, which was not sent", h.Ack)
	}
	return nil
}

// lost ends an endpoint of which a packet is missing.
func (m *Module) lost(ep *Endpoint, why error) {
	m.drop(CntDropLost)
	m.end(ep, EventFailed, fmt.Errorf("%w: %w", ErrLost, why))
}

// acceptReliable takes over a packet that is no pack.
func (m *Module) acceptReliable(in *arrival) {
	ep, h := in.ep, &in.Header
	switch {
	case h.Kind == frag.KindChunk && ep.rel.failed != 0 && ep.rel.failedID == h.FragID:
		m.drop(CntDropState)
		m.refuseReliable(ep, h, ep.rel.failed)
	case h.Flags&frag.FlagPut != 0:
		mem, ok := m.regions.target(Handle(h.Handle), h.PutOffset, len(in.payload))
		if !ok {
			m.drop(CntDropAccess)
			m.refuseReliable(ep, h, frag.NackAccess)
			return
		}
		copy(mem, in.payload)
		m.stats.counters[CntRecvPayloadBytes] += uint64(len(in.payload))
		m.accepted(ep, h)
	case h.Tag > frag.TagUserMax:
		m.accepted(ep, h)
		if h.Tag == frag.TagBye {
			m.peerClosed(ep)
		}
	case m.handlers[h.Tag] == nil:
		m.drop(CntDropNoHandler)
		m.refuseReliable(ep, h, frag.NackNoHandler)
	case h.Kind == frag.KindChunk:
		m.acceptReliableChunk(in)
	default:
		m.accepted(ep, h)
		m.deliver(ep, h.Tag, in.payload)
	}
}

func (m *Module) acceptReliableChunk(in *arrival) {
	ep, h := in.ep, &in.Header
	arriving := ep.asm.Active() > 0
	if arriving && (h.FragID != ep.rel.arriving || h.OffsetBytes != ep.rel.arrived) ||
		!arriving && h.OffsetBytes != 0 {
		m.lost(ep, fmt.Errorf("a chunk of fragment %d, at byte %d, was not the next one", h.FragID,
			h.OffsetBytes))
		return
	}
	msg, err := ep.asm.Add(h, in.payload, true)
	switch {
	case errors.Is(err, frag.ErrBudget):
		m.drop(CntDropReassembly)
		m.refuseReliable(ep, h, frag.NackMemory)
	case err != nil: // what no sender sends
		m.lost(ep, err)
	default:
		ep.rel.arriving, ep.rel.arrived = h.FragID, h.OffsetBytes+uint32(h.PayloadLen)
		m.accepted(ep, h)
		if msg != nil {
			m.deliver(ep, msg.Tag, msg.Bytes)
			msg.Release()
		}
	}
}

// acceptReliablePack delivers the records of a pack that have a handler.
func (m *Module) acceptReliablePack(in *arrival) {
	ep, h := in.ep, &in.Header
	n := ep.rcv.Expected()
	before := len(ep.rel.nacks)
	for rest := in.payload; len(rest) > 0 && h.Seq != 0; {
		var tag uint8
		tag, _, rest = nextRecord(rest)
		if m.handlers[tag] == nil && !ep.refused(before, tag) {
			ep.rel.nacks = append(ep.rel.nacks, pendingNack{seq: n, reason: frag.NackRecord, tag: tag})
		}
	}
	for rest := in.payload; len(rest) > 0; {
		var tag uint8
		var data []byte
		tag, data, rest = nextRecord(rest)
		if m.handlers[tag] == nil || ep.state != stateConnected || ep.refused(before, tag) {
			m.stats.counters[CntRecordsDropped]++
			continue
		}
		m.deliver(ep, tag, data)
	}
	if ep.state != stateConnected {
		m.stats.counters[CntRecvPack]++
		return
	}
	m.accepted(ep, h)
}

// refused says whether one of the Nacks from the given one on names the tag.
func (ep *Endpoint) refused(from int, tag uint8) bool {
	for i := from; i < len(ep.rel.nacks); i++ {
		if ep.rel.nacks[i].tag == tag {
			return true
		}
	}
	return false
}

// count books a packet that was taken over, or refused.
func (m *Module) count(ep *Endpoint, h *frag.Header) {
	ep.rcv.Count(m.now)
	if h.Seq != 0 {
		ep.rcv.AskAck(m.now, m.rules.AckDelay)
	}
	if ep.rcv.AckDue() != Never {
		m.owe(ep)
	}
}

// refuseReliable books a refused packet. Its sender is told if it asks; if it is a chunk, with the
// last one, which asks, and so are all behind it refused.
func (m *Module) refuseReliable(ep *Endpoint, h *frag.Header, reason uint8) {
	n := ep.rcv.Expected()
	m.count(ep, h)
	if h.Kind == frag.KindChunk {
		ep.rel.failed, ep.rel.failedID = reason, h.FragID
		ep.asm.Forget(h.FragID)
	}
	if h.Seq != 0 {
		ep.rel.nacks = append(ep.rel.nacks, pendingNack{seq: n, reason: reason})
	}
}

// ackPath is the channel that ACKs and Nacks to the peer take, and its address there.
func (ep *Endpoint) ackPath() (*channel, fabric.Addr) {
	if ep.reliable {
		return &ep.m.data, ep.dataAddr
	}
	return &ep.m.cmd, ep.cmdAddr
}

// tellRefusals sends the Nacks that belong before an Ack to a reliable peer. False means that there
// is no room for all of them now.
func (m *Module) tellRefusals(ep *Endpoint) bool {
	nacks, told := ep.rel.nacks, 0
	for told < len(nacks) && m.sendNack(ep, nacks[told].seq, nacks[told].reason, nacks[told].tag) {
		told++
	}
	ep.rel.nacks = nacks[:copy(nacks, nacks[told:])]
	return len(ep.rel.nacks) == 0
}

// onConfirm ends the sends that the peer's Ack confirms.
func (m *Module) onConfirm(ep *Endpoint, h *frag.Header) {
	if ep.snd.Confirm(h.Ack, h.Credit) {
		ep.ackedAt = m.awake
		for f := ep.rel.confirm.first; f != nil && !h.Ack.Before(f.until); {
			m.segEnded(ep.rel.confirm.pop())
			f = ep.rel.confirm.first
		}
		ep.checkFlushed()
	}
	m.arm(ep)
}

// onNackReliable notes why a fragment will end, or sends it anew.
func (m *Module) onNackReliable(in *arrival) {
	ep, h := in.ep, &in.Header
	for f := ep.rel.confirm.first; f != nil && !h.Seq.Before(f.until); f = f.next {
		switch {
		case h.Seq != f.until:
		case h.Tag == frag.NackMemory:
			m.sendAnew(ep, f)
			return
		case h.Tag == frag.NackAccess:
			f.err = ErrRemoteAccess
		case h.Tag == frag.NackNoHandler || f.tag == in.payload[0] && !f.put:
			f.err = ErrNoHandler
		}
	}
}

// sendAnew puts a fragment in chunks, for which the peer had no memory, back to the front of the
// to-send list: but behind one of which chunks have been sent, for they must not mix.
func (m *Module) sendAnew(ep *Endpoint, f *Fragment) {
	if !f.large {
		return // it needs none
	}
	m.stats.counters[CntRetransmitNack]++
	ep.rel.confirm.remove(f)
	f.out--
	f.cursor, f.state = 0, fragQueued
	q := &ep.large.queue
	busy := q.first
	if busy != nil && busy.cursor == 0 {
		busy = nil
	}
	q.count++
	if busy == nil {
		f.next, q.first = q.first, f
	} else {
		f.next, busy.next = busy.next, f
	}
	if f.next == nil {
		q.last = f
	}
	waiting := ep.flushes.all()
	for i := range waiting { // those that waited for it do so again
		w := &waiting[i]
		after := &w.after[1]
		if *after == nil && f.until.Before(w.until) || *after != nil && *after == busy {
			*after = f
		}
	}
	m.rearm(ep)
}

// failUnconfirmed ends what is sent to a reliable peer that is gone.
func (m *Module) failUnconfirmed(ep *Endpoint, err error) {
	ep.snd.Settle()
	for f := ep.rel.confirm.pop(); f != nil; f = ep.rel.confirm.pop() {
		f.err = err
		m.segEnded(f)
	}
}

// breakOff has the endpoint end to which the fabric could not send what is in b, if it relies on
// the fabric. Not here: this may be inside Send.
func (m *Module) breakOff(b fabric.Buf) {
	ep := m.owner(b)
	if ep != nil && ep.reliable && ep.state == stateConnected && !ep.rel.broken {
		ep.rel.broken = true
		m.setTimer(ep, 0)
	}
}

// A sender that asks for nothing must still notice when its peer is gone. While something is
// not confirmed the endpoint's timer asks now and then: with a Void, which counts as any packet.
