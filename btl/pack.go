package btl

import (
	"gobtl/btl/internal/pack"
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// Small fragments that are sent in quick succession share a packet. A shared packet is called a
// Pack, and each fragment in it a record.
//
// The first small fragment to a peer is sent at once in its own packet, because a single
// message must not wait for other messages. The small fragments after the first one are
// copied to a send buffer of the endpoint, the open Pack, until the next call of Progress.
// Sealing a Pack gives the packet its sequence number, acknowledgement and retransmission
// timer. The Pack is sealed and sent when one of the following events occurs:
//
//  - The Pack is full.
//  - The next call of Progress begins.
//  - The scheduler serves the endpoint, if the Pack was opened during a call of Progress.
//  - The Pack of a connection over a reliable fabric holds enough fragments (showPack).
//
// A burst of small messages costs one system call for the first message and one for all
// other messages. If an earlier burst is in flight, a burst needs only one system call,
// because its first message also joins the Pack. A message is sent at once if its endpoint
// has no packet in flight.
//
// While a Pack is open, its endpoint stays in the scheduler's list. The endpoint's next sequence
// number is reserved for the open Pack, so no other packet of the endpoint is sealed before the
// Pack. A Pack is opened only while the send window is open, so an open Pack can always be sealed.

// openPack is a packet to which small fragments of an endpoint are still added.
type openPack struct {
	last *Fragment         // last fragment that has an OnDone; segment.frag is the first
	seg  reliability.Token // the send buffer of the Pack
	pack.Pack
}

// alone reports whether a message that is sent now must not wait for others. alone returns true
// if the endpoint has no burst in flight, and has sent no packet in the present call of Progress
// or after the latest call.
func (ep *Endpoint) alone() bool {
	return ep.sentIn != ep.m.clock.Epoch && (!ep.bursts || !ep.busy())
}

// packBytesMax is the maximum size of a Pack to this peer, as a datagram.
func (ep *Endpoint) packBytesMax() int { return min(ep.mtu, ep.m.cfg.PackBytes) }

// packs reports whether a fragment of sizeBytes is small enough to share a packet.
func (ep *Endpoint) packs(sizeBytes int) bool {
	return 2*(sizeBytes+frag.RecordHeaderBytes) <= ep.packBytesMax()-frag.FragHeaderBytes
}

// packable reports whether fragment f may share a packet. Fragments of the transport itself, memory
// operations, and fragments in several memory segments may not share a packet.
func (ep *Endpoint) packable(f *Fragment) bool {
	return !f.urgent && !f.put && f.op == nil && !f.data.Scattered() && f.tag <= frag.TagUserMax &&
		ep.packs(int(f.size))
}

// packSend copies fragment f to the endpoint's open Pack. packSend returns false if f cannot share
// a packet now, for example because other fragments are queued before f. The caller keeps the
// descriptor of f unless f.Signal is set.
func (ep *Endpoint) packSend(f *Fragment) bool {
	if !ep.overtakes(nil) || ep.id.State() != stateConnected || !ep.packable(f) {
		return false
	}
	m := ep.m
	if !m.packRoom(ep, int(f.size)) || !ep.pack.Open() && !m.openPack(ep, f) {
		return false
	}
	m.addRecord(ep, f)
	if f.Signal {
		m.chain(&ep.pack, f)
	}
	m.sched.armFlow(&ep.small)
	if ep.id.Counted {
		m.showPack(ep)
	}
	return true
}

// packData copies data to the endpoint's open Pack, without a descriptor. packData returns false if
// data cannot share a packet now.
func (ep *Endpoint) packData(tag uint8, data []byte) bool {
	if !ep.overtakes(nil) || ep.id.State() != stateConnected || !ep.packs(len(data)) {
		return false
	}
	m := ep.m
	var t reliability.Token
	if !m.packRoom(ep, len(data)) || !ep.pack.Open() && (!ep.snd.Open() || !m.takeSeg(ep, &t)) {
		return false
	}
	if p := &ep.pack; !p.Open() {
		m.beginPack(ep, t, tag, len(data))
		copy(m.port.Arena.Bytes(segBuf(t))[frag.FragHeaderBytes:], data)
	} else {
		p.Append(m.port.Arena.Bytes(segBuf(p.seg)), tag, data)
	}
	m.sched.armFlow(&ep.small)
	if ep.id.Counted {
		m.showPack(ep)
	}
	return true
}

// showFirst is the number of fragments at which the first Pack after a packet from the peer is
// posted early, over a reliable fabric.
const showFirst = 16

// showPack posts the open Pack of an endpoint over a reliable fabric when the Pack holds enough
// fragments.
func (m *Module) showPack(ep *Endpoint) {
	s := ep.counts
	if next := ep.rcv.Expected(); s.showSince != next || s.showAt == 0 {
		s.showSince, s.showAt = next, showFirst
	}
	if uint32(ep.pack.Records()) < s.showAt {
		return
	}
	if c, _ := ep.pack.channel(ep); c.Room() > port.BatchMax/2 {
		s.showAt *= 2
		m.sched.overtook(ep, m.sealPack(ep))
		m.post(c)
	}
}

// packRoom makes room in the open Pack for a fragment of sizeBytes. A Pack without enough room is
// sealed and added to the channel's batch.
func (m *Module) packRoom(ep *Endpoint, sizeBytes int) bool {
	if ep.pack.Fits(sizeBytes, ep.packBytesMax()) {
		return true
	}
	if c, _ := ep.pack.channel(ep); c.Room() <= port.BatchMax/2 {
		return false
	}
	m.sched.overtook(ep, m.sealPack(ep))
	return true
}

func (p *openPack) channel(ep *Endpoint) (*port.Channel, fabric.Addr) {
	return ep.way(p.Bytes())
}

// openPack takes a send buffer for a new Pack that begins with fragment f, and copies f to the
// buffer. If f already has a buffer, this buffer becomes the Pack without a copy, because a Pack
// with one fragment has the layout of an ordinary packet. openPack returns false if the window is
// closed or no buffer is free.
func (m *Module) openPack(ep *Endpoint, f *Fragment) bool {
	if !ep.snd.Open() || !f.hasSeg && !m.takeSeg(ep, &f.seg) && !m.borrowSeg(f, &f.seg) {
		return false
	}
	if !f.hasSeg {
		f.hasSeg = true
		copy(m.port.Arena.Bytes(segBuf(f.seg))[frag.FragHeaderBytes:], f.data.Bytes)
	}
	return true
}

func (m *Module) addRecord(ep *Endpoint, f *Fragment) {
	p := &ep.pack
	if !p.Open() {
		if m.recovery.State(f.seg) == reliability.Queued {
			m.recovery.Unqueue(f.seg)
		}
		f.hasSeg = false
		m.beginPack(ep, f.seg, f.tag, int(f.size))
		return
	}
	p.Append(m.port.Arena.Bytes(segBuf(p.seg)), f.tag, f.data.Bytes)
	if f.hasSeg {
		f.hasSeg = false
		if m.recovery.State(f.seg) == reliability.Queued {
			m.recovery.Unqueue(f.seg)
		}
		m.giveSeg(ep, f.seg)
	}
}

// beginPack opens a Pack in send buffer t with one fragment of sizeBytes.
func (m *Module) beginPack(ep *Endpoint, t reliability.Token, tag uint8, sizeBytes int) {
	m.sched.packs++
	m.recovery.Queue(t)
	m.segs[t].ep, m.segs[t].pack = ep, true
	ep.pack = openPack{seg: t}
	ep.pack.Begin(tag, sizeBytes)
}

// chain adds a fragment of the open Pack to the list of fragments whose OnDone is called when the
// Pack is acknowledged.
func (b *buffers) chain(p *openPack, f *Fragment) {
	f.state, f.out, f.cursor, f.next = fragSent, 1, f.size, nil
	if p.last == nil {
		b.segs[p.seg].frag = f
	} else {
		p.last.next = f
	}
	p.last = f
}

// sendPack fills the open Pack with fragments from the front of the endpoint's queue, and sends the
// Pack. sendPack returns the packet's length in bytes, or 0 if the packet cannot be sent now.
func (m *Module) sendPack(ep *Endpoint) int {
	for f := ep.small.queue.first; f != nil && ep.packable(f); f = ep.small.queue.first {
		if ep.behindFence(f) ||
			!ep.pack.Fits(int(f.size), ep.packBytesMax()) || !ep.pack.Open() && !m.openPack(ep, f) {
			break
		}
		m.addRecord(ep, f)
		m.unqueue(ep, f)
		m.chain(&ep.pack, f)
	}
	if !ep.pack.Open() {
		return 0
	}
	return m.sealPack(ep)
}

// sendPacks sends the open Packs of flows whose turn it is, at the beginning of a call of
// Progress and before the polls.
func (m *Module) sendPacks() {
	for turn := m.sched.Fresh(); turn != nil && m.sched.packs > 0; {
		next, ep := turn.Next(), turn.Owner()
		if f := &ep.small; turn == &f.Flow && ep.pack.Open() {
			n := m.sealPack(ep)
			f.Charge(n)
			ep.sentSmall(n)
			if f.Deficit() <= 0 || !f.may() {
				m.sched.endTurn(f)
			}
			m.sched.rearm(ep)
		}
		turn = next
	}
	m.post(&m.port.Command)
	m.post(&m.port.Data)
}

// sealPack seals the open Pack and adds the packet to the batch of its channel. A Pack with only
// one fragment becomes an ordinary packet (Frag). sealPack returns the packet's length in bytes, or
// 0 if the batch has no room now.
func (m *Module) sealPack(ep *Endpoint) int {
	p := ep.pack
	c, to := p.channel(ep)
	if ep.roomOn(c) <= 0 {
		return 0
	}
	f := m.segs[p.seg].frag
	pkt := packet{ep: ep, frag: f, seg: p.seg}
	p.Header(&pkt.Header)
	ep.bursts = p.Records() > 1
	if !ep.bursts {
		m.segs[p.seg].pack = false
	} else {
		m.stats.counters[CntPacked] += uint64(p.Records())
	}
	m.recovery.Unqueue(p.seg)
	m.sched.packs--
	ep.pack = openPack{}
	n := m.seal(&pkt)
	ep.awaitEndOfPack(f, p.Records())
	m.putSegment(c, p.seg, to)
	return n
}

func (m *Module) failPack(ep *Endpoint, err error) {
	p := ep.pack
	if !p.Open() {
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

// chainEnded ends the send of fragment f and of the other fragments linked by next, which have
// shared its packet. A non-nil err becomes the error of each fragment.
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

// acceptPack accepts a Pack, and delivers its fragments in order. If a handler removes another
// handler or ends the endpoint, the remaining fragments of the Pack for that handler or endpoint
// are dropped.
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
			// A reply to an earlier fragment of the Pack must not acknowledge the Pack, because
			// an Abort in a handler may prevent the delivery of the later fragments.
			m.accepted(ep, h)
			taken = true
		}
		switch {
		case isPiece && ep.id.State() == stateConnected:
			m.acceptPiece(ep, pieces) // the fragment needs the piece even without a handler
			pieces++
		case m.handlers[tag] == nil || ep.id.State() != stateConnected ||
			ep.id.Counted && m.refusedTags.Has(tag):
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

// onNackRecord ends the fragments in packet t whose tag has no handler at the peer with an error,
// and retransmits the packet without them. onNackRecord returns false for a repeated or invalid
// Nack.
func (m *Module) onNackRecord(ep *Endpoint, t reliability.Token, tag uint8) bool {
	s := &m.segs[t]
	if !s.pack || s.void || s.strip {
		return false
	}
	done := pack.CountTag(m.recordsOf(t), tag)
	if done == 0 {
		return false
	}
	s.strip, s.stripTag = true, tag
	m.answeredBy(ep, t)
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

// toldDone returns the number of messages in packet t for which Send has already returned Done.
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
	count = pack.Count(m.recordsOf(t))
	for f := s.frag; f != nil; f = f.next {
		count--
	}
	return count
}

// recordsOf returns the payload of a sealed Pack, which consists of records (fragments with short
// headers).
func (m *Module) recordsOf(t reliability.Token) []byte {
	return m.port.Arena.Bytes(segBuf(t))[frag.FragHeaderBytes:m.segs[t].bytes]
}
