package btl

import "gobtl/frag"

// accept accepts a new packet if all layers above the receive window can handle it. Any
// other packet must not be acknowledged. The function accept delivers the fragments that
// the packet completes.
func (m *Module) accept(in *arrival) {
	ep, h := in.ep, &in.Header
	switch {
	case ep.id.State() == stateLingering:
		m.drop(CntDropState) // no packet may follow the peer's Bye
	case ep.bye.Precedes(ep.numberOf(h)):
		m.drop(CntDropState) // no packet may follow the peer's Bye
	case h.Kind == frag.KindChunk && ep.refuses() && m.refusedBefore(in):
	case h.Flags&(frag.FlagPut|frag.FlagOp) != 0:
		m.acceptRemote(in)
	case h.Kind == frag.KindPack:
		m.acceptPack(in)
	case h.Tag > frag.TagUserMax:
		m.accepted(ep, h)
		if h.Tag == frag.TagBye {
			ep.bye.Came(ep.numberOf(h), frag.ByeCode(in.payload))
		} else {
			ep.refusals.CameWithout(h.Seq, nil, &ep.asm)
		}
		m.checkBye(ep)
	case m.handlers[h.Tag] == nil:
		m.drop(CntDropNoHandler)
		m.refuse(in, frag.NackNoHandler)
	case h.Kind == frag.KindChunk && m.tooLong(h):
		m.drop(CntDropUnwanted)
		m.refuse(in, ep.unwantedReason())
	case h.Kind == frag.KindChunk:
		m.acceptChunk(in)
	default:
		m.accepted(ep, h)
		m.deliver(ep, h.Tag, in.payload)
		m.checkBye(ep)
	}
}

// tooLong reports whether a chunk belongs to a fragment longer than the handler of its tag accepts.
func (r *reception) tooLong(h *frag.Header) bool {
	most := r.mostBytes[h.Tag]
	return most != 0 && h.SizeBytes > most
}

// unwantedReason returns the reason in the Nack for a chunk of a fragment that is too long.
func (ep *Endpoint) unwantedReason() uint8 {
	if ep.id.Operates {
		return frag.NackRight
	}
	return frag.NackNoHandler
}

func acceptedCounter(h *frag.Header) Counter {
	switch {
	case h.Flags&frag.FlagPut != 0 && h.Kind == frag.KindChunk:
		return CntRecvPutChunk
	case h.Flags&frag.FlagPut != 0:
		return CntRecvPutFrag
	case h.Kind == frag.KindChunk:
		return CntRecvChunk
	case h.Kind == frag.KindPack:
		return CntRecvPack
	}
	return CntRecvFrag
}

func (m *Module) deliver(ep *Endpoint, tag uint8, data []byte) {
	m.stats.counters[CntDelivered]++
	m.stats.counters[CntRecvPayloadBytes] += uint64(len(data))
	m.handlers[tag](ep, Tag(tag), data)
}

// deliverWhole delivers a complete large fragment, and frees its memory unless the handler keeps
// the fragment.
func (m *Module) deliverWhole(ep *Endpoint, msg *frag.Message) {
	m.keeping.Deliver(msg)
	m.deliver(ep, msg.Tag, msg.Bytes)
	m.keeping.Delivered()
}

// acceptChunk adds a chunk to its fragment, and delivers the fragment when all chunks have arrived.
func (m *Module) acceptChunk(in *arrival) {
	ep, h := in.ep, &in.Header
	msg, ok := m.assemble(in)
	if !ok {
		return
	}
	m.accepted(ep, h)
	m.chunkCame(ep, h, msg != nil)
	if msg != nil {
		m.deliverWhole(ep, msg)
	}
	m.checkBye(ep)
}

// checkBye ends an endpoint whose peer has sent a Bye, when all packets up to the Bye have arrived.
func (m *Module) checkBye(ep *Endpoint) {
	if ep.bye.Due(ep.rcv.Next()) && ep.id.State() == stateConnected {
		m.peerClosed(ep)
	}
}
