package btl

import (
	"errors"

	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// A sequenced link is for a fabric that may lose, repeat and reorder packets. Its windows are in
// Sender and Receiver of package reliability.

// sealSequenced is seal for a sequenced link.
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

// answersAlone says whether the packet to be sealed is a lone answer, whose ACK the peer may delay:
// it carries the first ACK of the peer's packets, no packet is in flight, and no caller waits for
// its ACK. A lone answer holds its send buffer until then, so half of all buffers must be free.
func (m *Module) answersAlone(p *packet, s *sendSegment) bool {
	ep := p.ep
	return p.Kind == frag.KindFrag && p.Tag <= frag.TagUserMax && p.frag == nil &&
		ep.rcv.Answers() && ep.ackRides() && ep.flushes.Len() == 0 && !ep.closing && !ep.waiting() &&
		2*len(m.freeSegs) >= len(m.segs) && ep.snd.MayBePatient(m.now, s.channel(), p.datagramBytes())
}

// stamp piggybacks the owed ACK on a packet: the first of a run, as later ones carry none.
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

// sealRunSequenced numbers the chunks of a run and starts their timers. Only the first chunk may
// carry an ACK, so the headers of the others are equal but for number and offset.
func (m *Module) sealRunSequenced(r *chunkRun, run []reliability.Token) {
	m.stamp(&r.packet)
	r.first = r.ep.snd.AdmitRun(run)
	r.packets = uint32(len(run))
	r.number = r.ep.numbers.Take(&m.source, viaData, r.packets)
	r.frag.out += r.packets
	m.postedRun(r.ep, run, r.first)
}

// noNews counts a duplicate or out-of-window packet, and answers it if the peer seems to have
// missed an ACK.
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

// notAdded handles a chunk that could not be added to its fragment. For lack of memory or a slot,
// the peer will send it again later. The peer is told so, as it would declare this side dead if its
// oldest packet went unanswered; and silent peers that hold such memory are probed.
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

// admitRecordsSequenced refuses a pack as a whole if one of its tags has no handler: the peer sends
// it again without those records.
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

// refuseSequenced tells the peer that a packet is refused. If there is no room for it now, the peer
// sends the packet again and is told then.
func (m *Module) refuseSequenced(in *arrival, reason, tag uint8) {
	if in.Kind == frag.KindChunk && in.Flags&frag.FlagPut == 0 {
		in.ep.remember(in.Seq, in.FragID)
	}
	m.sendNack(in.ep, in.Seq, reason, tag)
}

// refusedBeforeSequenced accepts, and discards, a chunk of a fragment that its sender has failed.
func (m *Module) refusedBeforeSequenced(in *arrival) bool {
	ep := in.ep
	if in.Flags&frag.FlagPut != 0 || m.handlers[in.Tag] == nil {
		return false
	}
	if ep.wasRefused(in.Seq, in.FragID) {
		if m.tooLong(&in.Header) {
			return false // it is refused for that again
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

// refusal records a permanently refused chunk or piece. A Void in the chunk's place, or the pack
// without the piece, shows that the sender has failed the fragment: then received data of it is
// discarded, and so is later data.
type refusal struct {
	seq    seq.Num
	fragID uint32
	failed bool // the Void has come
}

// refusalsMax bounds the refused chunks that are remembered for an endpoint. Beyond that the oldest
// are forgotten, whose only cost is memory held until the endpoint ends.
const refusalsMax = 64

// remember notes that packet n had a refused chunk, or piece, of a fragment.
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

// wasRefused says whether packet n was refused because of this fragment. If so it is refused again,
// even if its tag has a handler by now: a late copy would begin a fragment whose rest never comes.
func (ep *Endpoint) wasRefused(n seq.Num, fragID uint32) bool {
	for i := range ep.refusals {
		if r := &ep.refusals[i]; r.seq == n && r.fragID == fragID {
			return true
		}
	}
	return false
}

// voided discards the received data of fragments refused in packet n, now that a Void, or the pack
// without their pieces, has come as packet n.
func (ep *Endpoint) voided(n seq.Num) {
	for i := range ep.refusals {
		if r := &ep.refusals[i]; r.seq == n && !r.failed {
			r.failed = true
			ep.asm.Forget(r.fragID)
		}
	}
}

// failedThere says whether the fragment is known to have failed at its sender.
func (ep *Endpoint) failedThere(fragID uint32) bool {
	ep.forgetRefusals()
	for i := range ep.refusals {
		if ep.refusals[i].fragID == fragID && ep.refusals[i].failed {
			return true
		}
	}
	return false
}

// forgetRefusals removes refusals so old that no packet of their fragments can still arrive: the
// sender stops within a window of the refusal.
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
