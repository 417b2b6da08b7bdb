package btl

import (
	"math"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// The code below writes the headers of fragments, ACKs and Nacks. The packets of handshakes are
// written in write_hello.go. Path MTU probes (Pings), replies to probes (Pongs) and slices of
// packets (Parts) are written in write_path.go. The payload of a packet is in its send buffer, or
// is gathered by the fabric from registered memory.

// via is the channel that carries a packet.
type via = port.Which

const (
	viaCommand = port.Command
	viaData    = port.Data
)

// packet is an outgoing packet, with its header fields and the module's state of the packet. A
// packet is a local variable of the sending function, and is passed only by pointer to functions
// that do not keep it.
type packet struct {
	frag.Header
	ep   *Endpoint
	frag *Fragment         // fragment that ends with the packet; in a Pack the first of several
	seg  reliability.Token // the packet's send buffer
}

// setFrag fills the empty packet p for a fragment that fits into one packet and has a send
// buffer.
func (p *packet) setFrag(f *Fragment, flags frag.Flags) {
	p.Kind, p.Flags, p.Tag, p.PayloadLen = frag.KindFrag, flags, f.tag, uint16(f.size)
	p.Handle, p.PutOffset = uint64(f.handle), f.offset
	p.ep, p.frag, p.seg = f.ep, f, f.seg
	if f.op != nil {
		p.setOp(f.op)
	}
}

// setOp adds to p the header fields of an operation that fits into one packet.
func (p *packet) setOp(o *operation) {
	p.Op, p.OpCode = o.Number(), o.Code()
	if o.Notifies() { // a put with its notification
		says := len(o.Notice())
		p.OpCode, p.OpBytes, p.Tag = frag.OpPlaced, uint8(says), o.Tag()
		p.PayloadLen += uint16(says)
	}
}

// datagramBytes returns the length in bytes, with the header, of a packet whose kind, flags and
// payload length are set.
func (p *packet) datagramBytes() int {
	return frag.HeaderBytes(p.Kind, p.Flags) + int(p.PayloadLen)
}

// write writes a packet's header before the payload in the send buffer. write returns the
// datagram's length in bytes.
func (m *Module) write(p *packet, s *sendSegment) int {
	sizeBytes := p.Encode(m.port.Arena.Bytes(segBuf(p.seg))) + int(p.PayloadLen)
	s.ep, s.bytes = p.ep, uint32(sizeBytes)
	return sizeBytes
}

// writeWhole writes the header and the payload of a fragment to the buffer b, which has no
// sendSegment. writeWhole returns the datagram's length in bytes.
func writeWhole(ep *Endpoint, b fabric.Buf, tag uint8, data []byte) int {
	pkt := ep.m.port.Arena.Bytes(b)
	number := ep.numbers.Take(&ep.m.source, viaCommand, 1)
	n := frag.PutFrag(pkt, ep.id.Peer.Tag, number, tag, len(data))
	return n + copy(pkt[n:], data)
}

// sentCounter maps a kind of packet to the counter of sent packets of that kind.
var sentCounter = [16]Counter{
	frag.KindFrag: CntSentFrag, frag.KindChunk: CntSentChunk, frag.KindPack: CntSentPack,
	frag.KindPing: CntSentPing, frag.KindPong: CntSentPong,
}

// chunkRun is a series of consecutive chunks of one fragment.
type chunkRun struct {
	packet
	next      frag.Followers
	first     seq.Num // sequence number of the first chunk
	number    uint32  // packet number of the first chunk
	packets   uint32  // number of chunks numbered at once, or 0 if each is sealed separately
	written   uint32
	sizeBytes uint32 // of the latest chunk's datagram
}

// beginRun initializes the empty r for chunks of the fragment f in the send buffers of run.
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

// refresh updates a packet before its retransmission, with a new packet number and the current ACK
// fields. If the peer has refused the packet, refresh replaces the packet by a Void, which is an
// empty packet.
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

// stripPack removes the refused records from a Pack before its retransmission. A Pack without
// records becomes a Void, an empty packet.
func (m *Module) stripPack(ep *Endpoint, t reliability.Token, s *sendSegment) {
	s.strip = false
	all := m.recordsOf(t)
	n := 0
	for rest := all; len(rest) > 0; {
		var tag uint8
		record := rest
		if tag, _, rest = nextRecord(rest); tag != s.stripTag {
			n += copy(all[n:], record[:len(record)-len(rest)]) // moves to the front
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

// rewrite writes a packet that replaces a refused packet, and corrects the number of bytes in
// flight.
func (m *Module) rewrite(p *packet, s *sendSegment) {
	before := int(s.bytes)
	p.ep.snd.Carry(m.write(p, s) - before)
}

// takeAck writes the outstanding ACK and the current credits to the header h.
func (m *Module) takeAck(ep *Endpoint, h *frag.Header) {
	m.credits.At(m.clock.Now)
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

// sendAck sends the outstanding ACK as an Ack packet. sendAck returns false if the channel has no
// room for the Ack packet now.
func (m *Module) sendAck(ep *Endpoint) bool {
	c, to := ep.ackPath()
	b, ok := m.takeControl(c, to)
	if !ok {
		return false
	}
	pkt := m.port.Arena.Bytes(b)
	h := frag.Header{Kind: frag.KindAck, Conn: ep.id.Peer.Tag}
	h.Number = ep.numbers.Take(&m.source, c.Which(), 1)
	ep.snd.Hasten(m.clock.Now) // this ACK may replace the one in a lost reply
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

// rangesRoom returns the number of ranges of a selective ACK that fit into an Ack packet of
// sizeBytes.
func rangesRoom(sizeBytes int) int {
	return min(frag.SackRangesMax, (sizeBytes-frag.AckBytes-frag.SackHeadBytes)/frag.SackRangeBytes)
}

// writeSack writes a selective ACK to pkt, behind the space for the header h of an Ack packet.
// writeSack returns the length of the selective ACK in bytes.
func (m *Module) writeSack(ep *Endpoint, h *frag.Header, pkt []byte) int {
	s, words := &m.sack, m.sackWords[:]
	s.Count = 0
	if ep.rcv.Held() > 0 {
		n := ep.rcv.OutOfOrder(words[:max(1, ep.rcv.Size()/64)])
		s.SetWords(words[:n], rangesRoom(ep.tiny))
	}
	s.LastNumber, s.LastData = ep.numbers.Seen, ep.numbers.SeenBy == viaData
	last, ago, unread, copies := ep.rcv.Latest(m.clock.Now)
	s.Last, s.Copies = last, copies
	s.DelayUs = uint16(min(ago.Microseconds(), math.MaxUint16))
	s.UnreadUs = uint16(min(unread.Microseconds(), math.MaxUint16))
	h.Flags |= frag.FlagSack
	h.PayloadLen = uint16(s.Bytes())
	return s.Encode(pkt[frag.AckBytes:])
}

// sendNack tells the peer that the packet with sequence number n is refused, and why. If reason is
// NackRecord, the argument tag is the tag of the refused messages in a Pack. sendNack returns false
// if the channel has no room for the Nack now.
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

// sendQuestion sends an empty packet (Void) that requests an ACK from the peer of a counted link.
// The Void counts as a data packet. sendQuestion returns false if the command channel has no room
// for the Void now.
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

// sendLastWord sends the peer one Bye with an abort code, if the command channel has room.
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

// putControl adds the packet in control buffer b, to a connected peer, to a channel's batch.
func (m *Module) putControl(ep *Endpoint, c *port.Channel, b fabric.Buf, sizeBytes int,
	to fabric.Addr,
) {
	if ep.id.Counted {
		n, _ := m.port.Control(b)
		m.ctlOwner[n] = ep
	}
	c.Put(b, sizeBytes, to)
}
