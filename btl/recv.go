package btl

import "gobtl/frag"

// accept takes a new packet over, if everything above the window can; only then may an ACK cover
// it.
func (m *Module) accept(in *arrival) {
	ep, h := in.ep, &in.Header
	switch {
	case ep.state == stateLingering:
		m.drop(CntDropState) // the peer said goodbye: nothing may follow
	case h.Flags&frag.FlagPut != 0:
		m.acceptPut(in)
	case h.Kind == frag.KindPack:
		m.acceptPack(in)
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
		// Without room for it now the peer sends the packet again, and is told then.
		m.sendNack(ep, h.Seq, frag.NackNoHandler, 0)
	case h.Kind == frag.KindChunk:
		m.acceptChunk(in)
	default:
		m.accepted(ep, h)
		m.deliver(ep, h.Tag, in.payload)
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
func (m *Module) acceptChunk(in *arrival) {
	ep, h := in.ep, &in.Header
	if ep.failedThere(h.FragID) {
		m.accepted(ep, h)
		m.checkBye(ep)
		return
	}
	msg, err := ep.asm.Add(h, in.payload, h.Seq == ep.rcv.Next())
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
