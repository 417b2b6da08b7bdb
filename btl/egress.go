package btl

import (
	"math"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// All headers are written here: in this file those of fragments, ACKs and Nacks, in egress_hello.go
// of handshakes, in egress_path.go of Pings, Pongs and Parts. The payload is in the packet's buffer
// already, or the fabric gathers it. The channel posts the packet.

// via is the channel that carries a packet.
type via = port.Which

const (
	viaCommand = port.Command
	viaData    = port.Data
)

// packet is an outgoing packet: the fields of its header, and the module's state of it. It is a
// local variable of the sending function, passed down by pointer and never retained.
type packet struct {
	frag.Header
	ep   *Endpoint
	frag *Fragment         // that waits for its end; of a pack the first of those that do
	seg  reliability.Token // the send buffer in which it stands
}

// setFrag makes p, which is empty, the packet of a fragment that fits one, in its send buffer. The
// fragment is told of the packet's end. (Building the packet elsewhere and copying it would double
// the cost: the processor waits for the stores of its fields.)
func (p *packet) setFrag(f *Fragment, flags frag.Flags) {
	p.Kind, p.Flags, p.Tag, p.PayloadLen = frag.KindFrag, flags, f.tag, uint16(f.size)
	p.Handle, p.PutOffset = uint64(f.handle), f.offset
	p.ep, p.frag, p.seg = f.ep, f, f.seg
	if f.op != nil {
		p.setOp(f.op)
	}
}

// setOp makes p the only packet of an operation.
func (p *packet) setOp(o *operation) {
	p.Op, p.OpCode = o.Number(), o.Code()
	if o.Notifies() { // all of the put, and its notice
		says := len(o.Notice())
		p.OpCode, p.OpBytes, p.Tag = frag.OpPlaced, uint8(says), o.Tag()
		p.PayloadLen += uint16(says)
	}
}

// datagramBytes is the length of a packet whose kind, flags and payload are known.
func (p *packet) datagramBytes() int {
	return frag.HeaderBytes(p.Kind, p.Flags) + int(p.PayloadLen)
}

// write puts a packet's header before its payload. It returns the datagram's length.
func (m *Module) write(p *packet, s *sendSegment) int {
	sizeBytes := p.Encode(m.port.Arena.Bytes(segBuf(p.seg))) + int(p.PayloadLen)
	s.ep, s.bytes = p.ep, uint32(sizeBytes)
	return sizeBytes
}

// writeWhole writes a whole packet, header and payload, into a buffer without a segment. It returns
// the datagram's length.
func writeWhole(ep *Endpoint, b fabric.Buf, tag uint8, data []byte) int {
	pkt := ep.m.port.Arena.Bytes(b)
	number := ep.numbers.Take(&ep.m.source, viaCommand, 1)
	n := frag.PutFrag(pkt, ep.id.Peer.Tag, number, tag, len(data))
	return n + copy(pkt[n:], data)
}

// sentCounter maps a kind of sealed packet, Ping or Pong to its counter.
var sentCounter = [16]Counter{
	frag.KindFrag: CntSentFrag, frag.KindChunk: CntSentChunk, frag.KindPack: CntSentPack,
	frag.KindPing: CntSentPing, frag.KindPong: CntSentPong,
}

// chunkRun is a run of consecutive chunks of one fragment: the packet of the latest chunk whose
// header was fully encoded, and the state of the headers after it.
type chunkRun struct {
	packet
	next      frag.Followers
	first     seq.Num // sequence number of the first one
	number    uint32  // packet number of the first one
	packets   uint32  // that were numbered at once; 0: each is sealed by itself
	written   uint32
	sizeBytes uint32 // of the latest one's datagram
}

// beginRun initializes r, which is empty, for the chunks of a fragment that go into the segments of
// run.
func (m *Module) beginRun(r *chunkRun, f *Fragment, flags frag.Flags, run []reliability.Token) {
	r.Kind, r.Flags, r.Tag, r.Handle = frag.KindChunk, flags, f.tag, uint64(f.handle)
	r.FragID, r.SizeBytes = f.id, f.size
	r.FirstBytes, r.ChunkBytes = f.first, f.chunk
	r.ep, r.frag = f.ep, f
	if f.op != nil && flags&frag.FlagOp != 0 {
		r.Op, r.OpCode = f.op.Number(), frag.OpPart
	}
	m.sealRun(r, run)
}

// writeChunk writes into segment t the header of a run's next chunk: sizeBytes from offset on.
func (m *Module) writeChunk(r *chunkRun, t reliability.Token, offset, sizeBytes uint32) {
	if r.written > 0 && sizeBytes == uint32(r.PayloadLen) {
		r.next.Write(m.port.Arena.Bytes(segBuf(t)))
		s := &m.segs[t]
		s.frag, s.ep, s.bytes, s.data = r.frag, r.ep, r.sizeBytes, true
		r.ep.snd.Carry(int(r.sizeBytes))
		r.written++
		return
	}
	r.seg, r.PayloadLen, r.OffsetBytes = t, uint16(sizeBytes), offset
	r.PutOffset = r.frag.offset + uint64(offset)
	if r.packets == 0 {
		m.seal(&r.packet)
		return
	}
	r.Seq, r.Number = r.first.Add(r.written), r.number+r.written
	s := &m.segs[t]
	r.sizeBytes = uint32(m.write(&r.packet, s))
	r.ep.snd.Carry(int(r.sizeBytes))
	s.frag, s.data = r.frag, true
	r.Flags &^= frag.FlagAck | frag.FlagDup
	if r.written == 0 && r.packets > 1 {
		r.next.After(&r.Header)
	}
	r.written++
}

// appendRecord copies a further record into a pack. The pack's first record now gets its header.
func (m *Module) appendRecord(p *openPack, tag uint8, data []byte) {
	b := m.port.Arena.Bytes(segBuf(p.seg))
	if p.records == 1 {
		const at = frag.FragHeaderBytes + frag.RecordHeaderBytes
		first := b[at:][:copy(b[at:], b[frag.FragHeaderBytes:p.bytes])]
		frag.PutRecord(b[frag.FragHeaderBytes:], p.tag, first)
		p.bytes += frag.RecordHeaderBytes
	}
	p.bytes += uint32(frag.PutRecord(b[p.bytes:], tag, data))
	p.records++
}

// refresh updates a packet before its retransmission: its ACK field, or, if the peer has refused
// it, an empty packet in its place.
func (m *Module) refresh(ep *Endpoint, t reliability.Token, s *sendSegment) {
	if s.strip {
		m.stripPack(ep, t, s)
	}
	if s.void {
		void := packet{
			Header: frag.Header{
				Kind: frag.KindFrag, Tag: frag.TagVoid, Conn: ep.id.Peer.Tag, Seq: m.seqOf(t),
			},
			ep: ep, seg: t,
		}
		m.rewrite(&void, s)
		s.gatherLen = 0
	}
	b := m.port.Arena.Bytes(segBuf(t))
	frag.SetNumber(b, ep.numbers.Take(&m.source, viaData, 1))
	if !ep.ackRides() {
		frag.ClearAck(b)
		return
	}
	var ack frag.Header
	m.takeAck(ep, &ack)
	m.stats.counters[CntAckPiggybacked]++
	frag.SetAck(b, ack.Ack, ack.Credit, ack.CreditBytes, ack.Flags&frag.FlagDup != 0)
}

// stripPack removes the records that the peer has refused from a pack before its retransmission. A
// pack without records left becomes a Void.
func (m *Module) stripPack(ep *Endpoint, t reliability.Token, s *sendSegment) {
	s.strip = false
	all := m.recordsOf(t)
	n := 0
	for rest := all; len(rest) > 0; {
		var tag uint8
		record := rest
		if tag, _, rest = nextRecord(rest); tag != s.stripTag {
			n += copy(all[n:], record[:len(record)-len(rest)]) // never beyond where it was
		}
	}
	if n == 0 {
		s.void = true
		return
	}
	p := packet{
		Header: frag.Header{
			Kind: frag.KindPack, Conn: ep.id.Peer.Tag, Seq: m.seqOf(t), PayloadLen: uint16(n),
		},
		ep: ep, seg: t,
	}
	m.rewrite(&p, s)
}

// rewrite is write for the packet that replaces a refused one.
func (m *Module) rewrite(p *packet, s *sendSegment) {
	before := int(s.bytes)
	p.ep.snd.Carry(m.write(p, s) - before)
}

// takeAck piggybacks the owed ACK on a header.
func (m *Module) takeAck(ep *Endpoint, h *frag.Header) {
	m.credits.At(m.now)
	ep.rcv.Pace(m.acks.Lulls(), &m.rules)
	ack, credit, dup := ep.rcv.TakeAck(m.credits)
	h.Ack, h.Credit, h.CreditBytes = ack, credit, unitsOf(ep.rcv.GrantedBytes())
	h.Flags |= frag.FlagAck
	if dup {
		h.Flags |= frag.FlagDup
	}
	m.acks.Settle(&ep.rcv)
	if ep.rcv.Wants() {
		m.wantsTrip(ep)
	}
}

// sendAck sends the owed ACK as a packet of its own. False means that there is no room for it now.
func (m *Module) sendAck(ep *Endpoint) bool {
	c, to := ep.ackPath()
	b, ok := m.takeControl(c, to)
	if !ok {
		return false
	}
	pkt := m.port.Arena.Bytes(b)
	h := frag.Header{Kind: frag.KindAck, Conn: ep.id.Peer.Tag}
	h.Number = ep.numbers.Take(&m.source, c.Which(), 1)
	ep.snd.Hasten(m.now) // the peer may get by this one what a lone answer that is lost has brought
	m.takeAck(ep, &h)
	if ep.asking {
		ep.asking = false
		if oldest, _ := ep.snd.Window(); !ep.asksFor.Before(oldest) {
			h.Flags |= frag.FlagAsk
			h.Seq = ep.asksFor
			m.stats.counters[CntAsked]++
		}
	}
	sizeBytes := frag.AckBytes
	if ep.id.Selective {
		sizeBytes += m.writeSack(ep, &h, pkt)
	}
	h.Encode(pkt)
	m.stats.counters[CntSentAck]++
	m.putControl(ep, c, b, sizeBytes, to)
	return true
}

// rangesRoom is the number of Sack ranges that fit an Ack packet of sizeBytes.
func rangesRoom(sizeBytes int) int {
	return min(frag.SackRangesMax, (sizeBytes-frag.AckBytes-frag.SackHeadBytes)/frag.SackRangeBytes)
}

// writeSack writes a Sack after the space for the header h of an Ack, and returns its length.
func (m *Module) writeSack(ep *Endpoint, h *frag.Header, pkt []byte) int {
	s, words := &m.sack, m.sackWords[:]
	s.Count = 0
	if ep.rcv.Held() > 0 {
		n := ep.rcv.OutOfOrder(words[:max(1, ep.rcv.Size()/64)])
		s.SetWords(words[:n], rangesRoom(ep.tiny))
	}
	s.LastNumber, s.LastData = ep.numbers.Seen, ep.numbers.SeenBy == viaData
	last, ago, unread, copies := ep.rcv.Latest(m.now)
	s.Last, s.Copies = last, copies
	s.DelayUs = uint16(min(ago.Microseconds(), math.MaxUint16))
	s.UnreadUs = uint16(min(unread.Microseconds(), math.MaxUint16))
	h.Flags |= frag.FlagSack
	h.PayloadLen = uint16(s.Bytes())
	return s.Encode(pkt[frag.AckBytes:])
}

// sendNack tells the peer that the packet with the number n is refused for good; for a pack, tag is
// that of the refused records (NackRecord). False means that there is no room for the Nack now.
func (m *Module) sendNack(ep *Endpoint, n seq.Num, reason, tag uint8) bool {
	c, to := ep.ackPath()
	b, ok := m.takeControl(c, to)
	if !ok {
		return false
	}
	pkt := m.port.Arena.Bytes(b)
	h := frag.Header{
		Kind: frag.KindNack, Conn: ep.id.Peer.Tag, Seq: n, Tag: reason,
		Number: ep.numbers.Take(&m.source, c.Which(), 1),
	}
	if reason == frag.NackRecord {
		h.PayloadLen = frag.NackRecordBytes - frag.NackBytes
		pkt[frag.NackBytes] = tag
	}
	sizeBytes := h.Encode(pkt) + int(h.PayloadLen)
	m.stats.counters[CntSentNack]++
	m.putControl(ep, c, b, sizeBytes, to)
	return true
}

// sendQuestion sends a reliable peer, in a control buffer, an empty packet that is counted as any
// other and requests a confirmation. False means that there is no room for it now.
func (m *Module) sendQuestion(ep *Endpoint) bool {
	b, ok := m.takeControl(&m.port.Command, ep.cmdAddr)
	if !ok {
		return false
	}
	h := frag.Header{
		Kind: frag.KindFrag, Tag: frag.TagVoid, Conn: ep.id.Peer.Tag, Seq: ep.snd.Count(),
		Number: ep.numbers.Take(&m.source, viaCommand, 1),
	}
	m.stats.counters[CntAsked]++
	m.stats.counters[CntSentFrag]++
	m.putControl(ep, &m.port.Command, b, h.Encode(m.port.Arena.Bytes(b)), ep.cmdAddr)
	return true
}

// sendLastWord sends the peer a single Bye with an abort code, if there is room.
func (m *Module) sendLastWord(ep *Endpoint, code uint16) {
	b, ok := m.takeControl(&m.port.Command, ep.cmdAddr)
	if !ok {
		return
	}
	pkt := m.port.Arena.Bytes(b)
	h := frag.Header{
		Kind: frag.KindFrag, Tag: frag.TagBye, Conn: ep.id.Peer.Tag,
		Number:     ep.numbers.Take(&m.source, viaCommand, 1),
		PayloadLen: uint16(frag.PutByeCode(pkt[frag.FragHeaderBytes:], code)),
	}
	if !ep.id.Counted {
		_, h.Seq = ep.snd.Window()
	}
	m.stats.counters[CntSentFrag]++
	m.port.Command.Put(b, h.Encode(pkt)+int(h.PayloadLen), ep.cmdAddr)
}

// putControl adds a packet without a send buffer, to a connected peer, to a channel's batch.
func (m *Module) putControl(ep *Endpoint, c *port.Channel, b fabric.Buf, sizeBytes int,
	to fabric.Addr,
) {
	if ep.id.Counted {
		n, _ := m.port.Control(b)
		m.ctlOwner[n] = ep
	}
	c.Put(b, sizeBytes, to)
}
