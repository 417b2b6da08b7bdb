package btl

import (
	"errors"

	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// deferredReceive is the book-keeping that fast receive left for the next pass.
type deferredReceive struct {
	on      *channel
	tag     uint64 // of the endpoint, which may be gone by then
	hdr     frag.Header
	buf     fabric.Buf
	pending bool
}

// decode reads a packet into m.hdr and finds its endpoint. A nil endpoint means that the packet was
// dealt with: dropped and counted, or part of a handshake.
func (m *Module) decode(c *channel, comp *fabric.Completion) (*Endpoint, []byte) {
	m.stats.counters[CntReceived]++
	if comp.Errno != 0 {
		return m.drop(CntRecvErrors)
	}
	if int(comp.Len) > m.arena.Size() {
		return m.drop(CntDropTruncated)
	}
	pkt := m.arena.Bytes(comp.Buf)[:comp.Len]
	payload, err := frag.Decode(pkt, &m.hdr)
	if err != nil {
		if errors.Is(err, frag.ErrVersion) {
			m.onForeign(pkt)
			return m.drop(CntDropVersion)
		}
		return m.drop(CntDropMalformed)
	}
	if isHandshake[m.hdr.Kind&0x0F] {
		m.onHandshake(c, &m.hdr, payload)
		return nil, nil
	}
	ep := m.lookup(m.hdr.Conn)
	if ep == nil {
		return m.drop(CntDropConn)
	}
	if ep.state != stateConnected || ep.hs != nil {
		if ep = m.wakeUp(ep); ep == nil {
			return m.drop(CntDropState)
		}
	}
	return ep, payload
}

// isHandshake says which kinds of packets belong to handshakes.
var isHandshake = [16]bool{frag.KindHello: true, frag.KindHelloAck: true, frag.KindReject: true}

func (m *Module) drop(reason Counter) (*Endpoint, []byte) {
	m.stats.counters[reason]++
	return nil, nil
}

// lookup finds the endpoint of a connection tag: an index and a compare.
func (m *Module) lookup(tag uint64) *Endpoint {
	slot := tag & slotMask
	if slot >= uint64(len(m.slots)) {
		return nil
	}
	if ep := m.slots[slot]; ep != nil && ep.tag == tag {
		return ep
	}
	return nil
}

// heard notes a sign of life.
func (m *Module) heard(ep *Endpoint) {
	ep.heardAt = m.awake
	ep.silentResends, ep.probes = 0, 0
}

// receive books a packet and delivers what it completes.
func (m *Module) receive(c *channel, comp *fabric.Completion) {
	ep, payload := m.decode(c, comp)
	if ep == nil {
		return
	}
	h := &m.hdr
	if ep.reliable {
		m.receiveReliable(ep, h, payload)
		return
	}
	place := reliability.Accept
	if h.Kind.HasSeq() {
		place = ep.rcv.Check(h.Seq)
	}
	// The ACK on a packet that is here already, a copy of the network's making perhaps, is the one of
	// before: it reports no gap.
	if h.Flags&frag.FlagSack != 0 {
		if !m.onSack(ep, h, payload) {
			m.drop(CntDropAck)
			return
		}
	} else if h.Flags&frag.FlagAck != 0 && !m.onAck(ep, h, place != reliability.Accept) {
		m.drop(CntDropAck)
		return
	}
	m.heard(ep)
	switch h.Kind {
	case frag.KindAck:
		m.stats.counters[CntRecvAck]++
	case frag.KindNack:
		m.stats.counters[CntRecvNack]++
		m.onNack(ep, h, payload)
	default:
		if m.isNews(ep, place) {
			m.accept(ep, h, payload)
		}
	}
}

// isNews says whether a packet's place is in the window; one that is no news is counted, and
// answered if the peer seems to have missed an ACK.
func (m *Module) isNews(ep *Endpoint, place reliability.Verdict) bool {
	switch place {
	case reliability.Accept:
		return true
	case reliability.Duplicate:
		m.stats.counters[CntDuplicate]++
	case reliability.Below:
		m.stats.counters[CntBelowWindow]++
	default:
		m.stats.counters[CntAboveWindow]++
		return false
	}
	ep.rcv.Repeated(m.now)
	m.owe(ep)
	return false
}

// accept takes a new packet over, if everything above the window can; only then may an ACK cover
// it.
func (m *Module) accept(ep *Endpoint, h *frag.Header, payload []byte) {
	switch {
	case ep.state == stateLingering:
		m.drop(CntDropState) // the peer said goodbye: nothing may follow
	case h.Flags&frag.FlagPut != 0:
		m.acceptPut(ep, h, payload)
	case h.Kind == frag.KindPack:
		m.acceptPack(ep, h, payload)
	case h.Tag > frag.TagUserMax:
		m.accepted(ep, h)
		if h.Tag == frag.TagBye {
			ep.byeSeen, ep.byeSeq = true, h.Seq
		} else {
			ep.voided(h.Seq)
		}
		m.checkBye(ep)
	case m.handlers[h.Tag] == nil:
		m.drop(CntDropNoHandler)
		if h.Kind == frag.KindChunk {
			ep.refuse(h)
		}
		m.nack(ep, h, frag.NackNoHandler)
	case h.Kind == frag.KindChunk:
		m.acceptChunk(ep, h, payload)
	default:
		m.accepted(ep, h)
		m.deliver(ep, h.Tag, payload)
		m.checkBye(ep)
	}
}

// accepted books a packet in the window: it is acknowledged from now on.
func (m *Module) accepted(ep *Endpoint, h *frag.Header) {
	if ep.reliable {
		m.count(ep, h)
	} else {
		if h.Seq != ep.rcv.Next() {
			m.stats.counters[CntEarly]++
		}
		ep.rcv.Accept(m.now, h.Seq, &m.rules)
		ep.rcv.Unread(m.unread)
		m.owe(ep)
	}
	switch {
	case h.Flags&frag.FlagPut != 0 && h.Kind == frag.KindChunk:
		m.stats.counters[CntRecvPutChunk]++
	case h.Flags&frag.FlagPut != 0:
		m.stats.counters[CntRecvPutFrag]++
	case h.Kind == frag.KindChunk:
		m.stats.counters[CntRecvChunk]++
	case h.Kind == frag.KindPack:
		m.stats.counters[CntRecvPack]++
	default:
		m.stats.counters[CntRecvFrag]++
	}
}

func (m *Module) deliver(ep *Endpoint, tag uint8, data []byte) {
	m.stats.counters[CntDelivered]++
	m.stats.counters[CntRecvPayloadBytes] += uint64(len(data))
	m.handlers[tag](ep, Tag(tag), data)
}

// acceptChunk adds a chunk to its fragment and delivers the fragment when it is whole.
func (m *Module) acceptChunk(ep *Endpoint, h *frag.Header, payload []byte) {
	if ep.failedThere(h.FragID) {
		m.accepted(ep, h)
		m.checkBye(ep)
		return
	}
	msg, err := ep.asm.Add(h, payload, h.Seq == ep.rcv.Next())
	if err != nil {
		m.drop(CntDropReassembly) // comes again when there may be room
		ep.rcv.Repeated(m.now)    // this side is alive, though it cannot take the packet
		m.owe(ep)
		return
	}
	m.accepted(ep, h)
	if msg != nil {
		m.landing.over(ep, h)
		m.deliver(ep, msg.Tag, msg.Bytes)
		msg.Release()
	} else {
		m.landing.expect(h)
	}
	m.checkBye(ep)
}

// checkBye ends an endpoint whose peer has closed it and whose last packet has arrived.
func (m *Module) checkBye(ep *Endpoint) {
	if ep.byeSeen && ep.byeSeq.Before(ep.rcv.Next()) && ep.state == stateConnected {
		m.peerClosed(ep)
	}
}

// receiveFast delivers a fragment of one packet before its book-keeping, if nothing stands against
// it; false means that the packet is still to be received, and nothing has changed.
func (m *Module) receiveFast(c *channel, comp *fabric.Completion) bool {
	if comp.Errno != 0 || int(comp.Len) > m.arena.Size() {
		return false
	}
	payload, err := frag.Decode(m.arena.Bytes(comp.Buf)[:comp.Len], &m.hdr)
	h := &m.hdr
	if err != nil || h.Kind != frag.KindFrag || h.Flags&frag.FlagPut != 0 ||
		h.Tag > frag.TagUserMax || m.handlers[h.Tag] == nil {
		return false
	}
	ep := m.lookup(h.Conn)
	if ep == nil || ep.state != stateConnected || ep.byeSeen {
		return false
	}
	if ep.reliable {
		if h.Flags&frag.FlagAck != 0 || ep.whyLost(h) != nil {
			return false
		}
	} else if ep.rcv.Check(h.Seq) != reliability.Accept ||
		h.Flags&frag.FlagAck != 0 && !ep.snd.Plausible(h.Ack) {
		return false
	}
	c.receiving--
	m.deferred = deferredReceive{on: c, tag: h.Conn, hdr: *h, buf: comp.Buf, pending: true}
	m.stats.counters[CntReceived]++
	m.stats.counters[CntFastReceives]++
	m.dirty = true
	m.deliver(ep, h.Tag, payload)
	return true
}

// finishDeferred does the book-keeping of the fragment that the previous pass delivered fast. Its
// endpoint may have ended in the handler.
func (m *Module) finishDeferred() {
	d := &m.deferred
	if !d.pending {
		return
	}
	d.pending = false
	d.on.repost = append(d.on.repost, d.buf)
	ep := m.lookup(d.tag)
	if ep == nil || ep.state != stateConnected {
		m.stats.counters[CntRecvFrag]++
		return
	}
	if ep.hs != nil {
		m.wakeUp(ep)
	}
	if d.hdr.Flags&frag.FlagAck != 0 {
		m.onAck(ep, &d.hdr, false)
	}
	m.heard(ep)
	m.accepted(ep, &d.hdr)
}
