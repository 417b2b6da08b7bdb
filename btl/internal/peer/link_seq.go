package peer

import (
	"gobtl/btl/internal/stats"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// A sequenced link is for a fabric that may lose, repeat and reorder packets. The types Sender and
// Receiver of package reliability contain the windows of the link.

func (ln *Links) sealSequenced(p *packet) int {
	s := &ln.Buffers.Segs[p.seg]
	way := viaCommand
	s.data = p.Kind == frag.KindChunk || s.mixed || p.datagramBytes() > p.ep.Tiny
	if s.data {
		way = ViaData
	}
	lone := p.ep.ID.MayWait && ln.answersAlone(p, s)
	ln.stamp(p)
	if lone {
		p.Flags |= frag.FlagLater
	}
	p.Seq = p.ep.Snd.Admit(p.seg)
	p.Number = p.ep.Numbers.Take(&ln.Buffers.Source, way, 1)
	sizeBytes := ln.Writer.write(p, s)
	p.ep.Snd.Carry(sizeBytes)
	s.Frag = p.frag
	ln.posted(p.ep, p.seg, p.Seq, lone)
	ln.Count[sentCounter[p.Kind&0x0F]]++
	return sizeBytes
}

// answersAlone reports whether the next packet is a lone reply, a packet whose ACK the peer may
// delay. A lone reply contains the first ACK for packets from the peer, no other packet is in
// flight, and no application waits for the ACK.
func (ln *Links) answersAlone(p *packet, s *SendSegment) bool {
	ep := p.ep
	return p.Kind == frag.KindFrag && p.Tag <= frag.TagUserMax && p.frag == nil &&
		ep.Rcv.Answers() && ep.ackRides() && ep.Flushes.Len() == 0 && !ep.Closing && !ep.Waiting() &&
		2*len(ln.Buffers.FreeSegs) >= len(ln.Buffers.Segs) &&
		ep.Snd.MayBePatient(ln.Clock.Now, s.channel(), p.datagramBytes())
}

// stamp adds the outstanding ACK to a packet, or to the first of several adjacent chunks.
func (ln *Links) stamp(p *packet) {
	ep := p.ep
	p.Conn = ep.ID.Peer.Tag
	if ep.Snd.InFlight() == 0 {
		ep.Life.FirstInFlight(ln.Clock.Unpaused)
	}
	if ep.ackRides() {
		ln.Writer.takeAck(ep, &p.Header)
		ln.Count[stats.CntAckPiggybacked]++
	}
	ep.sentIn = ln.Clock.Epoch
}

// Only the first chunk may contain an ACK.
func (ln *Links) sealRunSequenced(r *chunkRun, run []reliability.Token) {
	ln.stamp(&r.packet)
	r.first = r.ep.Snd.AdmitRun(run)
	r.packets = uint32(len(run))
	r.number = r.ep.Numbers.Take(&ln.Buffers.Source, ViaData, r.packets)
	r.frag.Out += r.packets
	ln.postedRun(r.ep, run, r.first)
}

// posted starts the retransmission timer of packet n in send buffer t. The retransmission
// timer is limited to a quarter of PeerTimeout, so that a packet is sent several times
// before the peer is declared dead.
func (ln *Links) posted(ep *Endpoint, t reliability.Token, n seq.Num, lone bool) {
	c := ln.Buffers.Segs[t].channel()
	if lone {
		ln.Count[stats.CntLoneAnswers]++
		ep.Snd.PostLone(ln.Clock.Now, t, n, c, ln.Config.PeerTimeout/4)
		return
	}
	ep.Snd.Post(ln.Clock.Now, t, n, c, ln.Config.PeerTimeout/4)
}

func (ln *Links) postedRun(ep *Endpoint, run []reliability.Token, n seq.Num) {
	ln.Count[stats.CntSentChunk] += uint64(len(run))
	ep.Snd.PostRun(ln.Clock.Now, run, n, reliability.Data, ln.Config.PeerTimeout/4)
}
