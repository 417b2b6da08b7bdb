package btl

import (
	"gobtl/frag"
	"gobtl/reliability"
)

// noticePlace is what is known of a put of a peer that has a notice. Each packet is accepted once,
// so its bytes are all in place when as many have been accepted as the notice says; one that was
// refused never is.
type noticePlace struct {
	number  uint32
	used    bool // number counts
	here    bool // the notice is
	tag     uint8
	length  uint8
	arrived uint64
	total   uint64
	says    [frag.NoticeBytesMax]byte
}

// place is where a put of the peer is counted. A number takes the place of that 64 before it, which
// is over: so nothing has to be said when one fails.
func (ep *Endpoint) place(number uint32) *noticePlace {
	if ep.notices == nil {
		ep.notices = new([noticePlaces]noticePlace)
	}
	p := &ep.notices[number%noticePlaces]
	if !p.used || p.number != number {
		*p = noticePlace{number: number, used: true}
	}
	return p
}

// acceptPart takes a packet of a put with a notice over.
func (m *Module) acceptPart(in *arrival) {
	ep, h := in.ep, &in.Header
	if !m.writeInto(in, in.payload, RemoteWrite|RemoteNotify) {
		return
	}
	m.accepted(ep, h)
	p := ep.place(h.Op)
	p.arrived += uint64(len(in.payload))
	m.putCame(ep, h)
	m.notify(ep, p)
	m.checkBye(ep)
}

// acceptPlaced takes a packet over that is a put with its notice.
func (m *Module) acceptPlaced(in *arrival) {
	ep, h := in.ep, &in.Header
	n := len(in.payload) - int(h.OpBytes)
	if m.handlers[h.Tag] == nil {
		m.drop(CntDropNoHandler)
		m.refuse(in, frag.NackNoHandler)
		return
	}
	if !m.writeInto(in, in.payload[:n], RemoteWrite|RemoteNotify) {
		return
	}
	m.accepted(ep, h)
	m.deliver(ep, h.Tag, in.payload[n:])
	m.checkBye(ep)
}

// placeFast writes the bytes of a put, which its notice follows in the same packet, and returns
// what that says; false means that nothing is written, for there is something against it.
func (m *Module) placeFast(ep *Endpoint, h *frag.Header, payload []byte) (
	says []byte, ok bool,
) {
	n := len(payload) - int(h.OpBytes)
	const need = RemoteWrite | RemoteNotify
	to, reason := m.regions.reach(ep, Handle(h.Handle), h.PutOffset, n, need)
	if !ep.operates || reason != 0 || to.get != nil {
		return nil, false
	}
	copy(to.mem[h.PutOffset:], payload[:n])
	m.stats.counters[CntRecvPayloadBytes] += uint64(n)
	return payload[n:], true
}

// acceptNotice takes a notice over, and keeps it until all its bytes have come.
func (m *Module) acceptNotice(in *arrival) {
	ep, h := in.ep, &in.Header
	total, says := frag.DecodeNotice(in.payload)
	p := ep.place(h.Op)
	switch {
	case m.handlers[h.Tag] == nil:
		m.drop(CntDropNoHandler)
		m.refuse(in, frag.NackNoHandler)
		return
	case ep.counted && p.arrived < uint64(total): // nothing comes behind it that could be missing
		m.drop(CntDropAccess)
		m.refuse(in, frag.NackAccess)
		return
	}
	p.here, p.tag, p.total = true, h.Tag, uint64(total)
	p.length = uint8(copy(p.says[:], says))
	m.accepted(ep, h)
	m.notify(ep, p)
	m.checkBye(ep)
}

// notify delivers the notice of a put that is all in place.
func (m *Module) notify(ep *Endpoint, p *noticePlace) {
	if !p.here || p.arrived < p.total {
		return
	}
	p.used, p.here = false, false
	if m.handlers[p.tag] == nil { // it was removed since the notice came
		m.stats.counters[CntRecordsDropped]++
		return
	}
	m.deliver(ep, p.tag, p.says[:p.length])
}

// placeless says whether a put with a notice, which is to leave in chunks, has to wait for an
// earlier one to end.
func (ep *Endpoint) placeless(f *Fragment) bool {
	o := f.op
	if o == nil || o.code != frag.OpPart {
		return false
	}
	return !o.numbered && ep.asks.places[(ep.asks.lastPut+1)%noticePlaces]
}

// numberPut gives a put with a notice the next place, when its first packet is sent.
func (ep *Endpoint) numberPut(o *operation) {
	ep.asks.lastPut++
	o.number, o.numbered = ep.asks.lastPut, true
	ep.asks.places[o.number%noticePlaces] = true
}

// begun says whether chunks of a fragment have left, and others have not: no other's may come
// between them. A notice may wait for longer, behind a fence.
func (f *Fragment) begun() bool { return f.cursor > 0 && !f.noticeDue() }

// noticeDue says whether nothing of a fragment is to be sent any more but its notice.
func (f *Fragment) noticeDue() bool {
	return f.op != nil && f.op.code == frag.OpPart && f.cursor == f.size && f.size > 0
}

// sendNotice sends the notice of a put whose chunks have left. It returns the packet's length, 0 if
// there is no room now.
func (m *Module) sendNotice(ep *Endpoint, f *Fragment) int {
	c, to := &m.port.Command, ep.cmdAddr // as all that is tiny: it may come before the bytes
	var tokens [1]reliability.Token
	if ep.roomOn(c) <= 0 {
		return 0
	}
	run := m.takeBulk(f, 1, tokens[:0])
	if len(run) == 0 {
		return 0
	}
	o := f.op
	var p packet
	p.ep, p.frag, p.seg = ep, f, run[0]
	p.Kind, p.Flags, p.Tag = frag.KindFrag, frag.FlagOp, o.tag
	p.Op, p.OpCode = o.number, frag.OpNotice
	at := m.port.Arena.Bytes(segBuf(p.seg))[frag.HeaderBytes(p.Kind, p.Flags):]
	p.PayloadLen = uint16(frag.PutNotice(at, f.size, o.body[:o.says]))
	o.told = true
	f.out++
	n := m.seal(&p)
	m.putSegment(c, p.seg, to)
	m.unqueue(ep, f)
	ep.awaitEnd(f)
	return n
}
