package btl

import (
	"errors"

	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// A sequenced link is for a fabric that may lose, repeat and reorder packets. Sender and Receiver
// of package reliability have the send and receive windows of the link.

// sealSequenced makes a packet of a sequenced link ready to be posted.
func (m *Module) sealSequenced(p *packet) int {
	s := &m.segs[p.seg]
	way := viaCommand
	s.data = p.Kind == frag.KindChunk || s.mixed || p.datagramBytes() > p.ep.tiny
	if s.data {
		way = viaData
	}
	lone := p.ep.id.MayWait && m.answersAlone(p, s)
	m.stamp(p)
	if lone {
		p.Flags |= frag.FlagLater
	}
	p.Seq = p.ep.snd.Admit(p.seg)
	p.Number = p.ep.numbers.Take(&m.source, way, 1)
	sizeBytes := m.write(p, s)
	p.ep.snd.Carry(sizeBytes)
	s.frag = p.frag
	m.posted(p.ep, p.seg, p.Seq, lone)
	m.stats.counters[sentCounter[p.Kind&0x0F]]++
	return sizeBytes
}

// answersAlone says whether the packet to be sealed is a lone answer, a packet whose ACK the peer
// may delay for longer. A lone answer carries the first ACK of packets from the peer, no other
// packet is in flight, and no caller waits for the ACK. A lone answer, whose ACK may be delayed,
// occupies a send buffer until the ACK arrives, so at least half of all send buffers must be free.
func (m *Module) answersAlone(p *packet, s *sendSegment) bool {
	ep := p.ep
	return p.Kind == frag.KindFrag && p.Tag <= frag.TagUserMax && p.frag == nil &&
		ep.rcv.Answers() && ep.ackRides() && ep.flushes.Len() == 0 && !ep.closing && !ep.waiting() &&
		2*len(m.freeSegs) >= len(m.segs) && ep.snd.MayBePatient(m.now, s.channel(), p.datagramBytes())
}

// stamp piggybacks the owed ACK on a packet, or on the first packet of a run of chunks.
func (m *Module) stamp(p *packet) {
	ep := p.ep
	p.Conn = ep.id.Peer.Tag
	if ep.snd.InFlight() == 0 {
		ep.life.FirstInFlight(m.nowUnpaused)
	}
	if ep.ackRides() {
		m.takeAck(ep, &p.Header)
		m.stats.counters[CntAckPiggybacked]++
	}
	ep.sentIn = m.sendEpoch
}

// sealRunSequenced numbers the chunks of a run and starts the timers of the chunks. Only the first
// chunk may carry an ACK. The headers of the later chunks differ only in numbers and offset.
func (m *Module) sealRunSequenced(r *chunkRun, run []reliability.Token) {
	m.stamp(&r.packet)
	r.first = r.ep.snd.AdmitRun(run)
	r.packets = uint32(len(run))
	r.number = r.ep.numbers.Take(&m.source, viaData, r.packets)
	r.frag.out += r.packets
	m.postedRun(r.ep, run, r.first)
}

// noNews counts a duplicate or out-of-window packet. If the peer seems to have missed an ACK,
// noNews schedules an ACK.
func (m *Module) noNews(ep *Endpoint, place reliability.Verdict) {
	switch place {
	case reliability.Duplicate:
		m.stats.counters[CntDuplicate]++
	case reliability.Below:
		m.stats.counters[CntBelowWindow]++
	default:
		m.stats.counters[CntAboveWindow]++
		return
	}
	if ep.rcv.Repeated(m.now) {
		m.acks.Owe(&ep.rcv, m.now)
	}
	if ep.snd.Missed(m.now) {
		m.sched.rearm(ep)
	}
}

// notAdded handles a chunk that could not be added to its fragment. notAdded schedules an ACK,
// which shows the peer that this side is alive. If memory or a slot for fragments was lacking, a
// Nack tells the peer to send the chunk again later. Silent peers that hold memory for incomplete
// fragments are then probed.
func (m *Module) notAdded(in *arrival, err error) {
	m.drop(CntDropReassembly)
	in.ep.rcv.AskAck(m.now, 0)
	m.acks.Owe(&in.ep.rcv, m.now)
	if !errors.Is(err, frag.ErrBudget) && !errors.Is(err, frag.ErrSlot) {
		return // what no sender sends
	}
	in.ep.rcv.Refused(in.Seq)
	m.sendNack(in.ep, in.Seq, frag.NackMemory, 0)
	m.wantsMemory(in.ep)
}

// admitRecordsSequenced checks the tags of the messages in a pack, a packet with several small
// messages. A pack is refused as a whole if the tag of one message has no handler. The peer then
// sends the pack again without the messages of the refused tag.
func (m *Module) admitRecordsSequenced(in *arrival) bool {
	ep := in.ep
	pieces := &m.pieces
	pieces.count = 0
	for rest := in.payload; len(rest) > 0; {
		again := false
		if frag.IsPiece(rest) {
			again = ep.wasRefused(in.Seq, pieces.push(rest))
		}
		var tag uint8
		tag, _, rest = nextRecord(rest)
		if m.handlers[tag] == nil || again {
			m.drop(CntDropNoHandler)
			m.refusePieces(in, tag)
			m.refuseSequenced(in, frag.NackRecord, tag)
			return false
		}
	}
	return pieces.count == 0 && !ep.refuses() || m.admitPieces(in)
}

// refuseSequenced sends the peer a Nack for a refused packet. If there is no room for the Nack, the
// peer retransmits the packet, and the retransmitted packet is refused again.
func (m *Module) refuseSequenced(in *arrival, reason, tag uint8) {
	if in.Kind == frag.KindChunk && in.Flags&frag.FlagPut == 0 {
		in.ep.remember(in.Seq, in.FragID)
	}
	m.sendNack(in.ep, in.Seq, reason, tag)
}

// refusedBeforeSequenced handles a chunk of a fragment that was refused before. The chunk is
// refused again, or is accepted and discarded if the sender has ended the fragment with an error.
// refusedBeforeSequenced returns false if the chunk belongs to no refused fragment.
func (m *Module) refusedBeforeSequenced(in *arrival) bool {
	ep := in.ep
	if in.Flags&frag.FlagPut != 0 || m.handlers[in.Tag] == nil {
		return false
	}
	if ep.wasRefused(in.Seq, in.FragID) {
		if m.tooLong(&in.Header) {
			return false // the caller refuses the chunk for its length
		}
		m.drop(CntDropNoHandler)
		m.refuseSequenced(in, frag.NackNoHandler, 0)
		return true
	}
	if !ep.failedThere(in.FragID) {
		return false
	}
	m.accepted(ep, &in.Header)
	m.checkBye(ep)
	return true
}

// refusal records a permanently refused chunk, or a refused piece of a fragment in a mixed packet.
// The sender of a refused fragment ends the fragment with an error, and resends the packet as a
// Void (empty packet) or without the piece. When the resent packet arrives, all data of the
// fragment is discarded, and so is later data of the fragment.
type refusal struct {
	seq    seq.Num
	fragID uint32
	failed bool // the resent packet has arrived
}

// refusalsMax is the maximum number of refused chunks that are remembered for an endpoint. If more
// chunks are refused, the oldest refusals are forgotten. Received data of a fragment whose refusal
// was forgotten may occupy memory until the endpoint ends.
const refusalsMax = 64

// remember records that packet n had a refused chunk or piece of the fragment fragID.
func (ep *Endpoint) remember(n seq.Num, fragID uint32) {
	ep.forgetRefusals()
	if ep.wasRefused(n, fragID) {
		return
	}
	if len(ep.refusals) == refusalsMax {
		ep.refusals = ep.refusals[:copy(ep.refusals, ep.refusals[1:])]
	}
	ep.refusals = append(ep.refusals, refusal{seq: n, fragID: fragID})
}

// wasRefused says whether packet n was refused because of the fragment fragID. Copies of a refused
// packet are refused again, even if the tag has a handler now. If a copy of the packet were
// accepted, the copy could begin a fragment whose rest never arrives.
func (ep *Endpoint) wasRefused(n seq.Num, fragID uint32) bool {
	for i := range ep.refusals {
		if r := &ep.refusals[i]; r.seq == n && r.fragID == fragID {
			return true
		}
	}
	return false
}

// voided discards the received data of the fragments that were refused because of packet n. voided
// is called when a new packet n has arrived from the peer, as a Void (empty packet) or as a pack
// without the refused pieces.
func (ep *Endpoint) voided(n seq.Num) {
	for i := range ep.refusals {
		if r := &ep.refusals[i]; r.seq == n && !r.failed {
			r.failed = true
			ep.asm.Forget(r.fragID)
		}
	}
}

// failedThere says whether the peer, as the sender, is known to have ended the fragment fragID with
// an error.
func (ep *Endpoint) failedThere(fragID uint32) bool {
	ep.forgetRefusals()
	for i := range ep.refusals {
		if ep.refusals[i].fragID == fragID && ep.refusals[i].failed {
			return true
		}
	}
	return false
}

// forgetRefusals removes the refusals that are more than a window old. No packet of the refused
// fragments can arrive any more, because the sender stops within a window of the refusal.
func (ep *Endpoint) forgetRefusals() {
	n := 0
	for _, r := range ep.refusals {
		if !r.seq.Add(ep.rcv.Size()).Before(ep.rcv.Next()) {
			ep.refusals[n] = r
			n++
		}
	}
	ep.refusals = ep.refusals[:n]
}
