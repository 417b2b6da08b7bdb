package peer

import (
	"math"

	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Writer writes headers and control packets.
type Writer struct {
	*Services
	sack      frag.Sack // of writeSack
	sackWords [frag.WindowMax / 64]uint64
}

// The code below writes the headers of fragments, ACKs and Nacks. The packets of handshakes are
// written in write_hello.go. Path MTU probes (Pings), replies to probes (Pongs) and slices of
// packets (Parts) are written in write_path.go. The payload of a packet is in its send buffer, or
// is gathered by the fabric from registered memory.

// via is the channel that carries a packet.
type via = port.Which

// The two channels.
const (
	viaCommand = port.Command
	ViaData    = port.Data
)

// The type "packet" is an outgoing packet, with its header fields and with local state that is not
// sent. Each packet is a local variable of the sending function. A pointer to a packet is passed
// only to functions that do not keep the pointer.
type packet struct {
	frag.Header
	ep   *Endpoint
	frag *Fragment         // fragment that waits for the ACK, or nil; in a Pack the first one
	seg  reliability.Token // the packet's send buffer
}

// setFrag fills in the header fields of packet p, for a fragment that fits into one packet and has
// a send buffer.
func (p *packet) setFrag(f *Fragment, flags frag.Flags) {
	p.Kind, p.Flags, p.Tag, p.PayloadLen = frag.KindFrag, flags, f.tag, uint16(f.size)
	p.Handle, p.PutOffset = uint64(f.handle), f.offset
	p.ep, p.frag, p.seg = f.Ep, f, f.seg
	if f.Op != nil {
		p.setOp(f.Op)
	}
}

// setOp sets those header fields of packet p that describe an operation which fits into one packet.
func (p *packet) setOp(o *Operation) {
	p.Op, p.OpCode = o.Number, o.Code
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

// write writes a packet's header to the send buffer, before the payload. write returns the
// datagram's length in bytes.
func (wr *Writer) write(p *packet, s *SendSegment) int {
	sizeBytes := p.Encode(wr.Port.Arena.Bytes(fabric.Buf(p.seg))) + int(p.PayloadLen)
	s.ep, s.bytes = p.ep, uint32(sizeBytes)
	return sizeBytes
}

// writeWhole writes the header and the payload of a fragment to the control buffer b, which has no
// SendSegment. writeWhole returns the datagram's length in bytes.
func writeWhole(ep *Endpoint, b fabric.Buf, tag uint8, data []byte) int {
	pkt := ep.All.Port.Arena.Bytes(b)
	number := ep.Numbers.Take(&ep.All.Buffers.Source, viaCommand, 1)
	n := frag.PutFrag(pkt, ep.ID.Peer.Tag, number, tag, len(data))
	return n + copy(pkt[n:], data)
}

// sentCounter maps each kind of packet to the counter of sent packets of this kind.
var sentCounter = [16]stats.Counter{
	frag.KindFrag: stats.CntSentFrag, frag.KindChunk: stats.CntSentChunk,
	frag.KindPack: stats.CntSentPack, frag.KindPing: stats.CntSentPing,
	frag.KindPong: stats.CntSentPong,
}

// chunkRun is a series of consecutive chunks of one fragment.
type chunkRun struct {
	packet
	next      frag.Followers
	first     seq.Num // sequence number of the first chunk
	number    uint32  // packet number of the first chunk
	packets   uint32  // number of chunks sealed together, or 0 if each is sealed separately
	written   uint32
	sizeBytes uint32 // of the latest chunk's datagram
}

// beginRun initializes the empty chunkRun r for chunks of fragment f. The argument "run" of
// beginRun lists the send buffers of the chunks.
func (wr *Writer) beginRun(r *chunkRun, f *Fragment, flags frag.Flags, run []reliability.Token) {
	r.Kind, r.Flags, r.Tag, r.Handle = frag.KindChunk, flags, f.tag, uint64(f.handle)
	r.FragID, r.SizeBytes = f.id, f.size
	r.FirstBytes, r.ChunkBytes = f.first, f.chunk
	r.ep, r.frag = f.Ep, f
	if f.Op != nil && flags&frag.FlagOp != 0 {
		r.Op, r.OpCode = f.Op.Number, frag.OpPart
	}
	wr.Links.sealRun(r, run)
}

// writeChunk writes the header of the fragment's next chunk to b, the memory of send buffer t. The
// argument sizeBytes of writeChunk is the size of the chunk's payload.
func (wr *Writer) writeChunk(r *chunkRun, t reliability.Token, b []byte, sizeBytes uint32) {
	if r.written > 0 && sizeBytes == uint32(r.PayloadLen) {
		r.next.Write(b)
		s := &wr.Buffers.segs[t]
		s.frag, s.ep, s.bytes = r.frag, r.ep, r.sizeBytes
		r.ep.Snd.Carry(int(r.sizeBytes))
		r.written++
		return
	}
	r.seg, r.PayloadLen, r.OffsetBytes = t, uint16(sizeBytes), r.frag.cursor
	r.PutOffset = r.frag.offset + uint64(r.frag.cursor)
	if r.packets == 0 {
		wr.Links.seal(&r.packet)
		return
	}
	r.Seq, r.Number = r.first.Add(r.written), r.number+r.written
	s := &wr.Buffers.segs[t]
	r.sizeBytes = uint32(wr.write(&r.packet, s))
	r.ep.Snd.Carry(int(r.sizeBytes))
	s.frag = r.frag
	r.Flags &^= frag.FlagAck | frag.FlagDup
	if r.written == 0 && r.packets > 1 {
		r.next.After(&r.Header)
	}
	r.written++
}

// refresh gives a packet a new packet number and the current ACK fields before its retransmission.
// If the peer has refused the packet, refresh replaces it by a Void (an empty packet).
func (wr *Writer) refresh(ep *Endpoint, t reliability.Token, s *SendSegment) {
	if s.strip {
		wr.stripPack(ep, t, s)
	}
	if s.void {
		void := packet{
			Header: frag.Header{
				Kind: frag.KindFrag, Tag: frag.TagVoid, Conn: ep.ID.Peer.Tag, Seq: wr.Buffers.seqOf(t),
			},
			ep: ep, seg: t,
		}
		wr.rewrite(&void, s)
		s.gatherLen = 0
	}
	b := wr.Port.Arena.Bytes(fabric.Buf(t))
	frag.SetNumber(b, ep.Numbers.Take(&wr.Buffers.Source, ViaData, 1))
	if !ep.ackRides() {
		frag.ClearAck(b)
		return
	}
	var ack frag.Header
	wr.takeAck(ep, &ack)
	wr.Count[stats.CntAckPiggybacked]++
	frag.SetAck(b, ack.Ack, ack.Credit, ack.CreditBytes, ack.Flags&frag.FlagDup != 0)
}

// stripPack removes the refused records (fragments) from a shared packet (Pack) before its
// retransmission. If no record is left in the Pack, stripPack replaces it by a Void, which is an
// empty packet.
func (wr *Writer) stripPack(ep *Endpoint, t reliability.Token, s *SendSegment) {
	s.strip = false
	all := wr.Buffers.recordsOf(t)
	n := 0
	for rest := all; len(rest) > 0; {
		var tag uint8
		record := rest
		if tag, _, rest = frag.NextRecord(rest); tag != s.stripTag {
			n += copy(all[n:], record[:len(record)-len(rest)]) // moves to the front
		}
	}
	if n == 0 {
		s.void = true
		return
	}
	p := packet{
		Header: frag.Header{
			Kind: frag.KindPack, Conn: ep.ID.Peer.Tag, Seq: wr.Buffers.seqOf(t), PayloadLen: uint16(n),
		},
		ep: ep, seg: t,
	}
	wr.rewrite(&p, s)
}

// rewrite writes a packet that replaces a refused packet. rewrite adds the difference between the
// size of the new packet and the size of the refused packet to the number of bytes in flight.
func (wr *Writer) rewrite(p *packet, s *SendSegment) {
	before := int(s.bytes)
	p.ep.Snd.Carry(wr.write(p, s) - before)
}

// takeAck writes the outstanding ACK and the current credits to the header h.
func (wr *Writer) takeAck(ep *Endpoint, h *frag.Header) {
	wr.Credits.At(wr.Clock.Now)
	ep.Rcv.Pace(wr.Acks.Lulls, &wr.Rules)
	ack, credit, dup := ep.Rcv.TakeAck(wr.Credits)
	h.Ack, h.Credit, h.CreditBytes = ack, credit, unitsOf(ep.Rcv.GrantedBytes())
	h.Flags |= frag.FlagAck
	if dup {
		h.Flags |= frag.FlagDup
	}
	wr.Acks.Settle(&ep.Rcv)
	if ep.Rcv.Wants() && wr.Credits.Stretches() && ep.Path.MayMeasure(wr.Clock.Now) {
		wr.Overcommit.measure = ep
	}
}

// sendAck sends the outstanding ACK as an Ack packet, and reports whether the channel had room for
// this packet.
func (wr *Writer) sendAck(ep *Endpoint) bool {
	c, to := ep.AckPath()
	b, ok := wr.Buffers.TakeControl(c, to)
	if !ok {
		return false
	}
	pkt := wr.Port.Arena.Bytes(b)
	h := frag.Header{Kind: frag.KindAck, Conn: ep.ID.Peer.Tag}
	h.Number = ep.Numbers.Take(&wr.Buffers.Source, c.Which, 1)
	ep.Snd.Hasten(wr.Clock.Now) // the previous ACK was possibly in a reply that was lost
	wr.takeAck(ep, &h)
	if ep.asking {
		ep.asking = false
		if oldest, _ := ep.Snd.Window(); !ep.asksFor.Before(oldest) {
			h.Flags |= frag.FlagAsk
			h.Seq = ep.asksFor
			wr.Count[stats.CntAsked]++
		}
	}
	sizeBytes := frag.AckBytes
	if ep.ID.Selective {
		sizeBytes += wr.writeSack(ep, &h, pkt)
	}
	h.Encode(pkt)
	wr.Count[stats.CntSentAck]++
	wr.putControl(ep, c, b, sizeBytes, to)
	return true
}

// rangesRoom returns the number of ranges of a selective ACK that fit into an Ack packet of
// sizeBytes.
func rangesRoom(sizeBytes int) int {
	return min(frag.SackRangesMax, (sizeBytes-frag.AckBytes-frag.SackHeadBytes)/frag.SackRangeBytes)
}

// writeSack writes a selective ACK to pkt, after the space for the header h of an Ack packet.
// writeSack returns the length of the selective ACK in bytes.
func (wr *Writer) writeSack(ep *Endpoint, h *frag.Header, pkt []byte) int {
	s, words := &wr.sack, wr.sackWords[:]
	s.Count = 0
	if ep.Rcv.Held() > 0 {
		n := ep.Rcv.OutOfOrder(words[:max(1, ep.Rcv.Size()/64)])
		s.SetWords(words[:n], rangesRoom(ep.Tiny()))
	}
	s.LastNumber, s.LastData = ep.Numbers.Seen, ep.Numbers.SeenBy == ViaData
	last, ago, unread, copies := ep.Rcv.Latest(wr.Clock.Now)
	s.Last, s.Copies = last, copies
	s.DelayUs = uint16(min(ago.Microseconds(), math.MaxUint16))
	s.UnreadUs = uint16(min(unread.Microseconds(), math.MaxUint16))
	h.Flags |= frag.FlagSack
	h.PayloadLen = uint16(s.Bytes())
	return s.Encode(pkt[frag.AckBytes:])
}

// SendNack sends the peer a Nack, which refuses the packet with sequence number n for the given
// reason. If the argument "reason" of SendNack is NackRecord, the argument "tag" is the tag of the
// refused messages in a Pack. SendNack reports whether the channel had room for the Nack. Without
// room, SendNack sends nothing.
func (wr *Writer) SendNack(ep *Endpoint, n seq.Num, reason, tag uint8) bool {
	c, to := ep.AckPath()
	b, ok := wr.Buffers.TakeControl(c, to)
	if !ok {
		return false
	}
	pkt := wr.Port.Arena.Bytes(b)
	h := frag.Header{
		Kind: frag.KindNack, Conn: ep.ID.Peer.Tag, Seq: n, Tag: reason,
		Number: ep.Numbers.Take(&wr.Buffers.Source, c.Which, 1),
	}
	if reason == frag.NackRecord {
		h.PayloadLen = frag.NackRecordBytes - frag.NackBytes
		pkt[frag.NackBytes] = tag
	}
	sizeBytes := h.Encode(pkt) + int(h.PayloadLen)
	wr.Count[stats.CntSentNack]++
	wr.putControl(ep, c, b, sizeBytes, to)
	return true
}

// SendQuestion sends an empty packet (Void) over a reliable fabric, which requests an ACK from the
// peer. The empty packet (Void) counts as a data packet. SendQuestion reports whether the command
// channel had room for the Void.
func (wr *Writer) SendQuestion(ep *Endpoint) bool {
	b, ok := wr.Buffers.TakeControl(&wr.Port.Command, ep.cmdAddr)
	if !ok {
		return false
	}
	h := frag.Header{
		Kind: frag.KindFrag, Tag: frag.TagVoid, Conn: ep.ID.Peer.Tag, Seq: ep.Snd.Count(),
		Number: ep.Numbers.Take(&wr.Buffers.Source, viaCommand, 1),
	}
	wr.Count[stats.CntAsked]++
	wr.Count[stats.CntSentFrag]++
	wr.putControl(ep, &wr.Port.Command, b, h.Encode(wr.Port.Arena.Bytes(b)), ep.cmdAddr)
	return true
}

// If the command channel has room for a packet, sendLastWord sends the peer one Bye with an abort
// code.
func (wr *Writer) sendLastWord(ep *Endpoint, code uint16) {
	b, ok := wr.Buffers.TakeControl(&wr.Port.Command, ep.cmdAddr)
	if !ok {
		return
	}
	pkt := wr.Port.Arena.Bytes(b)
	h := frag.Header{
		Kind: frag.KindFrag, Tag: frag.TagBye, Conn: ep.ID.Peer.Tag,
		Number:     ep.Numbers.Take(&wr.Buffers.Source, viaCommand, 1),
		Seq:        ep.abortSeq(),
		PayloadLen: uint16(frag.PutByeCode(pkt[frag.FragHeaderBytes:], code)),
	}
	wr.Count[stats.CntSentFrag]++
	wr.Port.Command.Put(b, h.Encode(pkt)+int(h.PayloadLen), ep.cmdAddr)
}

// putControl adds a packet for a connected peer, in control buffer b, to a channel's batch.
func (wr *Writer) putControl(ep *Endpoint, c *port.Channel, b fabric.Buf, sizeBytes int,
	to fabric.Addr,
) {
	wr.Buffers.ownControl(ep, b)
	c.Put(b, sizeBytes, to)
}
