package btl

import (
	"errors"

	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// A sequenced link is for a fabric that may lose, repeat and reorder packets. The types Sender and
// Receiver of package reliability contain the windows of the link.

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

// answersAlone reports whether the next packet is a lone reply, a packet whose ACK the peer may
// delay. A lone reply contains the first ACK for packets from the peer, no other packet is in
// flight, and no application waits for the ACK.
func (m *Module) answersAlone(p *packet, s *sendSegment) bool {
	ep := p.ep
	return p.Kind == frag.KindFrag && p.Tag <= frag.TagUserMax && p.frag == nil &&
		ep.rcv.Answers() && ep.ackRides() && ep.flushes.Len() == 0 && !ep.closing && !ep.waiting() &&
		2*len(m.freeSegs) >= len(m.segs) && ep.snd.MayBePatient(m.now, s.channel(), p.datagramBytes())
}

// stamp adds the outstanding ACK to a packet, or to the first of several adjacent chunks.
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

// Only the first chunk may contain an ACK.
func (m *Module) sealRunSequenced(r *chunkRun, run []reliability.Token) {
	m.stamp(&r.packet)
	r.first = r.ep.snd.AdmitRun(run)
	r.packets = uint32(len(run))
	r.number = r.ep.numbers.Take(&m.source, viaData, r.packets)
	r.frag.out += r.packets
	m.postedRun(r.ep, run, r.first)
}

// noNews counts a packet that was received before or is outside of the window. If the peer seems to
// have missed an ACK, noNews schedules an ACK.
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

// notAdded handles a chunk that could not be added to its fragment. If memory or a slot for
// fragments was lacking, a Nack tells the peer to send the chunk again later.
func (m *Module) notAdded(in *arrival, err error) {
	m.drop(CntDropReassembly)
	in.ep.rcv.AskAck(m.now, 0)
	m.acks.Owe(&in.ep.rcv, m.now)
	if !errors.Is(err, frag.ErrBudget) && !errors.Is(err, frag.ErrSlot) {
		return // no correct sender sends this
	}
	in.ep.rcv.Refused(in.Seq)
	m.sendNack(in.ep, in.Seq, frag.NackMemory, 0)
	m.wantsMemory(in.ep)
}

// admitRecordsSequenced checks the tags of the messages in a Pack, a packet with several small
// messages. A Pack is refused as a whole if the tag of one message has no handler. The peer sends a
// refused Pack again without the messages of the refused tag.
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
			in.refusePieces(tag)
			m.refuseSequenced(in, frag.NackRecord, tag)
			return false
		}
	}
	return pieces.count == 0 && !ep.refuses() || m.admitPieces(in)
}

// refuseSequenced sends the peer a Nack for a refused packet.
func (m *Module) refuseSequenced(in *arrival, reason, tag uint8) {
	if in.Kind == frag.KindChunk && in.Flags&frag.FlagPut == 0 {
		in.ep.remember(in.Seq, in.FragID)
	}
	m.sendNack(in.ep, in.Seq, reason, tag)
}

// refusedBeforeSequenced handles a chunk of a fragment that was refused before. A chunk of a
// refused fragment is refused again, or is accepted and dropped if the sender has ended the
// fragment with an error. refusedBeforeSequenced returns false if the chunk belongs to no refused
// fragment.
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

// refusal records a permanently refused chunk, or a refused part of a fragment in a mixed packet.
// The sender ends a refused fragment with an error, and sends its packet again as a Void (empty
// packet) or without the refused part.
type refusal struct {
	seq    seq.Num
	fragID uint32
	failed bool // the resent packet has arrived
}

// refusalsMax is the maximum number of refused chunks that are stored for an endpoint. If more
// than refusalsMax chunks are refused, the oldest refusals are removed.
const refusalsMax = 64

// remember records that packet n had a refused chunk or part of the fragment fragID.
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

// wasRefused reports whether packet n was refused because of the fragment fragID. Copies of a
// refused packet are also refused, even if the tag has a handler now.
func (l *link) wasRefused(n seq.Num, fragID uint32) bool {
	for i := range l.refusals {
		if r := &l.refusals[i]; r.seq == n && r.fragID == fragID {
			return true
		}
	}
	return false
}

// voided drops the received data of the fragments that were refused because of packet n. voided is
// called when a new packet n has arrived from the peer, as a Void (empty packet) or as a Pack
// without the refused parts.
func (ep *Endpoint) voided(n seq.Num) {
	for i := range ep.refusals {
		if r := &ep.refusals[i]; r.seq == n && !r.failed {
			r.failed = true
			ep.asm.Forget(r.fragID)
		}
	}
}

// failedThere reports whether the sending peer is known to have ended the fragment fragID with an
// error.
func (ep *Endpoint) failedThere(fragID uint32) bool {
	ep.forgetRefusals()
	for i := range ep.refusals {
		if ep.refusals[i].fragID == fragID && ep.refusals[i].failed {
			return true
		}
	}
	return false
}

// forgetRefusals removes the recorded refusals whose packets are more than a receive window old.
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
