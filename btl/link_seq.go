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
		2*len(m.freeSegs) >= len(m.segs) &&
		ep.snd.MayBePatient(m.clock.Now, s.channel(), p.datagramBytes())
}

// stamp adds the outstanding ACK to a packet, or to the first of several adjacent chunks.
func (m *Module) stamp(p *packet) {
	ep := p.ep
	p.Conn = ep.id.Peer.Tag
	if ep.snd.InFlight() == 0 {
		ep.life.FirstInFlight(m.clock.Unpaused)
	}
	if ep.ackRides() {
		m.takeAck(ep, &p.Header)
		m.stats.counters[CntAckPiggybacked]++
	}
	ep.sentIn = m.clock.Epoch
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
	if ep.rcv.Repeated(m.clock.Now) {
		m.acks.Owe(&ep.rcv, m.clock.Now)
	}
	if ep.snd.Missed(m.clock.Now) {
		m.sched.rearm(ep)
	}
}

// notAdded handles a chunk that could not be added to its fragment. If memory or a slot for
// fragments was lacking, a Nack tells the peer to send the chunk again later.
func (m *Module) notAdded(in *arrival, err error) {
	m.drop(CntDropReassembly)
	in.ep.rcv.AskAck(m.clock.Now, 0)
	m.acks.Owe(&in.ep.rcv, m.clock.Now)
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
	pieces.Clear()
	for rest := in.payload; len(rest) > 0; {
		again := false
		if frag.IsPiece(rest) {
			again = ep.refusals.Has(in.Seq, pieces.Push(rest))
		}
		var tag uint8
		tag, _, rest = nextRecord(rest)
		if m.handlers[tag] == nil || again {
			m.drop(CntDropNoHandler)
			ep.refusals.AddPieces(&ep.rcv.Receiver, in.Seq, in.payload, tag)
			m.refuseSequenced(in, frag.NackRecord, tag)
			return false
		}
	}
	return !pieces.Any() && !ep.refuses() || m.admitPieces(in)
}

// refuseSequenced sends the peer a Nack for a refused packet.
func (m *Module) refuseSequenced(in *arrival, reason, tag uint8) {
	if in.Kind == frag.KindChunk && in.Flags&frag.FlagPut == 0 {
		in.ep.refusals.Add(&in.ep.rcv.Receiver, in.Seq, in.FragID)
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
	if ep.refusals.Has(in.Seq, in.FragID) {
		if m.tooLong(&in.Header) {
			return false // the caller refuses the chunk for its length
		}
		m.drop(CntDropNoHandler)
		m.refuseSequenced(in, frag.NackNoHandler, 0)
		return true
	}
	if !ep.refusals.Ended(&ep.rcv.Receiver, in.FragID) {
		return false
	}
	m.accepted(ep, &in.Header)
	m.checkBye(ep)
	return true
}

// posted starts the retransmission timer of packet n in send buffer t. The retransmission
// timer is limited to a quarter of PeerTimeout, so that a packet is sent several times
// before the peer is declared dead.
func (m *Module) posted(ep *Endpoint, t reliability.Token, n seq.Num, lone bool) {
	c := m.segs[t].channel()
	if lone {
		m.stats.counters[CntLoneAnswers]++
		ep.snd.PostLone(m.clock.Now, t, n, c, m.cfg.PeerTimeout/4)
		return
	}
	ep.snd.Post(m.clock.Now, t, n, c, m.cfg.PeerTimeout/4)
}

func (m *Module) postedRun(ep *Endpoint, run []reliability.Token, n seq.Num) {
	m.stats.counters[CntSentChunk] += uint64(len(run))
	ep.snd.PostRun(m.clock.Now, run, n, reliability.Data, m.cfg.PeerTimeout/4)
}
