package btl

import (
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// Small fragments that are sent in quick succession share a packet, a pack. The first one leaves at
// once, alone: it is not known whether others follow, and a lone message must not wait. Later ones,
// in the same pass or before the next, are copied one behind the other into a send buffer, the
// endpoint's open pack. The pack is sealed (sequence number, ACK, timer) and sent when it is full,
// when the next pass begins, or, if it was opened in a pass, when that pass serves the endpoint;
// over a reliable fabric also when it holds its share of a burst (showPack). So a burst costs one
// system call for its first message, and one for all others. A burst that follows one still in
// flight costs only the second call, for its first message joins the pack. A message always leaves
// at once if its endpoint has nothing in flight.
//
// An open pack keeps its endpoint on the ready list, and has the next sequence number reserved: no
// other packet of the endpoint is sealed before it. So a pack is opened only while the window is
// open, and can always be sealed.

// openPack is an endpoint's pack under construction.
type openPack struct {
	last    *Fragment // of those whose senders want to be told, the first of which is the segment's
	seg     reliability.Token
	bytes   uint32 // of the datagram, header included; 0: no pack is open
	records uint32
	tag     uint8 // of the first record, which has no record header while it is alone
}

func (p *openPack) open() bool { return p.bytes != 0 }

// alone says whether a message sent now may be a lone one: its endpoint has sent nothing in this
// pass, or since the latest pass, and no burst of it is still in flight.
func (ep *Endpoint) alone() bool {
	return ep.sentIn != ep.m.sendEpoch && (!ep.bursts || !ep.busy())
}

// packBytesMax is the size of the largest pack to this peer.
func (ep *Endpoint) packBytesMax() int { return min(ep.mtu, ep.m.cfg.PackBytes) }

// packs says whether a fragment of that size may share a packet: two of them must fit a packet, or
// the only effect would be a further copy.
func (ep *Endpoint) packs(sizeBytes int) bool {
	return 2*(sizeBytes+frag.RecordHeaderBytes) <= ep.packBytesMax()-frag.FragHeaderBytes
}

// packable says whether fragment f may share a packet. Marks and puts do not.
func (ep *Endpoint) packable(f *Fragment) bool {
	return !f.put && f.op == nil && f.vec == nil && f.tag <= frag.TagUserMax && ep.packs(int(f.size))
}

// packSend puts a fragment into the endpoint's open pack, inside Send, if no fragment is queued
// before it. The caller keeps the descriptor, unless the fragment is to be told of its end.
func (ep *Endpoint) packSend(f *Fragment) bool {
	if !ep.overtakes() || ep.id.State() != stateConnected || !ep.packable(f) {
		return false
	}
	m := ep.m
	if !m.packRoom(ep, int(f.size)) || !ep.pack.open() && !m.openPack(ep, f) {
		return false
	}
	m.addRecord(ep, f)
	if f.Signal {
		m.chain(ep, f)
	}
	m.sched.armFlow(&ep.small)
	if ep.id.Counted {
		m.showPack(ep)
	}
	return true
}

// packData puts a copy of data into the endpoint's open pack, without a descriptor.
func (ep *Endpoint) packData(tag uint8, data []byte) bool {
	if !ep.overtakes() || ep.id.State() != stateConnected || !ep.packs(len(data)) {
		return false
	}
	m := ep.m
	var t reliability.Token
	if !m.packRoom(ep, len(data)) || !ep.pack.open() && (!ep.snd.Open() || !m.takeSeg(ep, &t)) {
		return false
	}
	if p := &ep.pack; !p.open() {
		m.beginPack(ep, t, tag, len(data))
		copy(m.port.Arena.Bytes(segBuf(t))[frag.FragHeaderBytes:], data)
	} else {
		m.appendRecord(p, tag, data)
	}
	m.sched.armFlow(&ep.small)
	if ep.id.Counted {
		m.showPack(ep)
	}
	return true
}

// showFirst is the number of records at which a reliable fabric's open pack is posted before the
// next pass, if it is the first since a packet of the peer; the number doubles with each further
// pack. So a burst after an answer starts early, and a stream has large packs.
const showFirst = 16

// showPack posts an open pack over a reliable fabric once it holds its share of a burst. There a
// post is no system call, and the peer can begin to read while further records are written.
func (m *Module) showPack(ep *Endpoint) {
	s := ep.counts
	if next := ep.rcv.Expected(); s.showSince != next || s.showAt == 0 {
		s.showSince, s.showAt = next, showFirst
	}
	if ep.pack.records < s.showAt {
		return
	}
	if c, _ := ep.pack.channel(ep); c.Room() > port.BatchMax/2 {
		s.showAt *= 2
		m.overtook(ep, m.sealPack(ep))
		m.post(c)
	}
}

// packRoom makes room for a record of sizeBytes: a pack without that room goes to the batch. Half
// of a batch is left to packets that a pass sends: retransmissions, other endpoints.
func (m *Module) packRoom(ep *Endpoint, sizeBytes int) bool {
	if ep.pack.fits(sizeBytes, ep.packBytesMax()) {
		return true
	}
	if c, _ := ep.pack.channel(ep); c.Room() <= port.BatchMax/2 {
		return false
	}
	m.overtook(ep, m.sealPack(ep))
	return true
}

// fits says whether a record of sizeBytes fits into the pack, or no pack is open.
func (p *openPack) fits(sizeBytes, maxBytes int) bool {
	if p.records > 1 {
		return int(p.bytes)+frag.RecordHeaderBytes+sizeBytes <= maxBytes
	}
	return !p.open() || int(p.bytes)+2*frag.RecordHeaderBytes+sizeBytes <= maxBytes
}

// channel is the channel that carries the pack, with the peer's address on it.
func (p *openPack) channel(ep *Endpoint) (*port.Channel, fabric.Addr) {
	return ep.way(int(p.bytes))
}

// openPack makes a send buffer the endpoint's open pack. If the fragment has a buffer, that becomes
// the pack unchanged, as a single record has the layout of a whole fragment.
func (m *Module) openPack(ep *Endpoint, f *Fragment) bool {
	if !ep.snd.Open() || !f.hasSeg && !m.takeSeg(ep, &f.seg) && !m.borrowSeg(f, &f.seg) {
		return false
	}
	if !f.hasSeg {
		f.hasSeg = true
		copy(m.port.Arena.Bytes(segBuf(f.seg))[frag.FragHeaderBytes:], f.mem)
	}
	return true
}

// addRecord puts a fragment into the pack; if no pack is open its buffer becomes the pack.
func (m *Module) addRecord(ep *Endpoint, f *Fragment) {
	p := &ep.pack
	if !p.open() {
		if m.recovery.State(f.seg) == reliability.Queued {
			m.recovery.Unqueue(f.seg)
		}
		f.hasSeg = false
		m.beginPack(ep, f.seg, f.tag, int(f.size))
		return
	}
	m.appendRecord(p, f.tag, f.mem)
	if f.hasSeg {
		f.hasSeg = false
		if m.recovery.State(f.seg) == reliability.Queued {
			m.recovery.Unqueue(f.seg)
		}
		m.giveSeg(ep, f.seg)
	}
}

// beginPack opens a pack with one record, whose payload is, or will be, behind the header.
func (m *Module) beginPack(ep *Endpoint, t reliability.Token, tag uint8, sizeBytes int) {
	m.sched.packs++
	m.recovery.Queue(t)
	m.segs[t].ep, m.segs[t].pack = ep, true
	ep.pack = openPack{
		seg: t, bytes: uint32(frag.FragHeaderBytes + sizeBytes), records: 1, tag: tag,
	}
}

// chain adds a fragment in the open pack to those that are told when the pack is acknowledged.
func (m *Module) chain(ep *Endpoint, f *Fragment) {
	p := &ep.pack
	f.state, f.out, f.cursor, f.next = fragSent, 1, f.size, nil
	if p.last == nil {
		m.segs[p.seg].frag = f
	} else {
		p.last.next = f
	}
	p.last = f
}

// sendPack sends the open pack, after moving as many fragments from the queue's front into it as
// fit. It returns the packet's length, 0 if there is no room for it now.
func (m *Module) sendPack(ep *Endpoint) int {
	for f := ep.small.queue.first; f != nil && ep.packable(f); f = ep.small.queue.first {
		if ep.behindFence(f) ||
			!ep.pack.fits(int(f.size), ep.packBytesMax()) || !ep.pack.open() && !m.openPack(ep, f) {
			break
		}
		m.addRecord(ep, f)
		m.unqueue(ep, f)
		m.chain(ep, f)
	}
	if !ep.pack.open() {
		return 0
	}
	return m.sealPack(ep)
}

// sendPacks sends, at the begin of a pass, the open packs of flows whose turn it is: their records
// need not wait for the polls of the pass, as even an empty poll is a system call. Other packs
// leave when the pass serves their flow.
func (m *Module) sendPacks() {
	for f := m.sched.newFlows.first; f != nil && m.sched.packs > 0; {
		next := f.next
		if ep := f.ep; f == &ep.small && ep.pack.open() {
			n := m.sealPack(ep)
			f.deficit -= n
			ep.sentSmall(n)
			if f.deficit <= 0 || !f.may() {
				m.sched.endTurn(f)
			}
			m.sched.rearm(ep)
		}
		f = next
	}
	m.post(&m.port.Command)
	m.post(&m.port.Data)
}

// sealPack makes the open pack a packet of its channel's batch: a plain fragment if it has only one
// record. It returns the packet's length, 0 if there is no room for it now.
func (m *Module) sealPack(ep *Endpoint) int {
	p := ep.pack
	c, to := p.channel(ep)
	if ep.roomOn(c) <= 0 {
		return 0
	}
	f := m.segs[p.seg].frag
	pkt := packet{ep: ep, frag: f, seg: p.seg}
	pkt.Kind, pkt.PayloadLen = frag.KindPack, uint16(p.bytes-frag.FragHeaderBytes)
	ep.bursts = p.records > 1
	if !ep.bursts {
		pkt.Kind, pkt.Tag = frag.KindFrag, p.tag
		m.segs[p.seg].pack = false
	} else {
		m.stats.counters[CntPacked] += uint64(p.records)
	}
	m.recovery.Unqueue(p.seg)
	m.sched.packs--
	ep.pack = openPack{}
	n := m.seal(&pkt)
	ep.awaitEndOfPack(f, int(p.records))
	m.putSegment(c, p.seg, to)
	return n
}

// failPack ends the fragments in the open pack of an endpoint that is gone.
func (m *Module) failPack(ep *Endpoint, err error) {
	p := ep.pack
	if !p.open() {
		return
	}
	m.sched.packs--
	ep.pack = openPack{}
	f := m.segs[p.seg].frag
	m.recovery.Unqueue(p.seg)
	m.segs[p.seg] = sendSegment{}
	m.giveSeg(ep, p.seg)
	m.chainEnded(f, err)
}

// chainEnded ends the fragments of a pack with its segment.
func (m *Module) chainEnded(f *Fragment, err error) {
	for f != nil {
		next := f.next
		if err != nil {
			f.err = err
		}
		m.segEnded(f)
		f = next
	}
}

// acceptPack accepts a pack and delivers its records in order, if the link admits them. A handler
// may remove another handler, or end the endpoint: the remaining records for it are dropped.
func (m *Module) acceptPack(in *arrival) {
	ep, h := in.ep, &in.Header
	if !m.admitRecords(in) {
		return
	}
	taken, pieces := false, 0
	for rest := in.payload; len(rest) > 0; {
		var tag uint8
		var data []byte
		isPiece := frag.IsPiece(rest)
		tag, data, rest = nextRecord(rest)
		if len(rest) == 0 && ep.id.State() == stateConnected {
			// An answer to an earlier record must not acknowledge the pack, as an Abort may prevent
			// the delivery of the rest; the answer to the last record must carry that ACK.
			m.accepted(ep, h)
			taken = true
		}
		switch {
		case isPiece && ep.id.State() == stateConnected:
			m.acceptPiece(ep, pieces) // its fragment needs it, whoever is there to get that
			pieces++
		case m.handlers[tag] == nil || ep.id.State() != stateConnected ||
			ep.id.Counted && m.refusedTags.has(tag):
			m.stats.counters[CntRecordsDropped]++
		default:
			m.deliver(ep, tag, data)
		}
	}
	if !taken {
		m.stats.counters[CntRecvPack]++
		return
	}
	m.checkBye(ep)
}

// onNackRecord fails the fragments with the tag that the peer has no handler for, and has the pack
// sent again without them. A repeated Nack finds no such fragment.
func (m *Module) onNackRecord(ep *Endpoint, t reliability.Token, tag uint8) bool {
	s := &m.segs[t]
	if !s.pack || s.void || s.strip || !m.hasRecord(t, tag) {
		return false
	}
	s.strip, s.stripTag = true, tag
	m.answeredBy(ep, t)
	done := 0
	for rest := m.recordsOf(t); len(rest) > 0; {
		var got uint8
		if got, _, rest = nextRecord(rest); got == tag {
			done++
		}
	}
	for f := s.frag; f != nil; f = f.next {
		if f.tag == tag && f.err == nil {
			f.err = ErrNoHandler
			done--
		}
	}
	if s.mixed {
		done = 0
		m.failBegun(s.begins, tag)
	}
	ep.flushQueue().Refused(m.seqOf(t), done, ErrNoHandler)
	ep.snd.Refuse(t)
	m.sched.rearm(ep)
	return true
}

// toldDone is the number of messages in a packet in flight whose Send returned Done, so that no
// caller waits for them.
func (m *Module) toldDone(t reliability.Token) (count int) {
	s := &m.segs[t]
	if s.mixed {
		return 0
	}
	if !s.pack {
		if s.frag == nil {
			count = 1
		}
		return count
	}
	for rest := m.recordsOf(t); len(rest) > 0; count++ {
		_, _, rest = nextRecord(rest)
	}
	for f := s.frag; f != nil; f = f.next {
		count--
	}
	return count
}

// recordsOf is the payload, all records, of a sealed pack.
func (m *Module) recordsOf(t reliability.Token) []byte {
	return m.port.Arena.Bytes(segBuf(t))[frag.FragHeaderBytes:m.segs[t].bytes]
}

func (m *Module) hasRecord(t reliability.Token, tag uint8) bool {
	for rest := m.recordsOf(t); len(rest) > 0; {
		var got uint8
		if got, _, rest = nextRecord(rest); got == tag {
			return true
		}
	}
	return false
}
