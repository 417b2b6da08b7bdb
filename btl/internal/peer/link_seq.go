package peer

import (
	"gobtl/btl/internal/stats"
	"gobtl/frag"
	"gobtl/reliability"
)

// A sequenced link is for a fabric that can lose, duplicate and reorder packets. The types Sender
// and Receiver of package reliability contain the windows of a sequenced link.

func (ln Links) sealSequenced(p *packet) int {
	s := &ln.Buffers.segs[p.seg]
	way, channel := viaCommand, reliability.Command
	if p.Kind == frag.KindChunk || s.mixed || p.datagramBytes() > p.ep.Tiny() {
		way, channel = ViaData, reliability.Data
	}
	lone := p.ep.ID.MayWait && ln.isLoneReply(p, channel)
	ln.stamp(p)
	if lone {
		p.Flags |= frag.FlagLater
	}
	p.Seq = p.ep.Snd.Admit(p.seg)
	p.Number = p.ep.Numbers.Take(&ln.Buffers.Source, way, 1)
	sizeBytes := ln.Writer.write(p, s)
	p.ep.Snd.Carry(sizeBytes)
	s.frag = p.frag
	// The retransmission time-out is at most a quarter of PeerTimeout, so that a packet is sent
	// several times before the peer is declared dead.
	if timeMax := ln.Config.PeerTimeout / 4; lone {
		ln.Count[stats.CntLoneAnswers]++
		p.ep.Snd.PostLone(ln.Clock.Now, p.seg, p.Seq, channel, timeMax)
	} else {
		p.ep.Snd.Post(ln.Clock.Now, p.seg, p.Seq, channel, timeMax)
	}
	ln.Count[sentCounter[p.Kind&0x0F]]++
	return sizeBytes
}

// isLoneReply reports whether the next packet is a lone reply, which is a packet whose ACK the peer
// is allowed to delay. A packet is a lone reply if it contains the first ACK for packets from the
// peer, no other packet is in flight, and no application waits for the packet's ACK.
func (ln Links) isLoneReply(p *packet, channel reliability.Channel) bool {
	ep := p.ep
	return p.Kind == frag.KindFrag && p.Tag <= frag.TagUserMax && p.frag == nil &&
		ep.Rcv.Answers() && ep.ackRides() && ep.Flushes.Len() == 0 && !ep.Closing && !ep.waiting() &&
		2*len(ln.Buffers.FreeSegs) >= len(ln.Buffers.segs) &&
		ep.Snd.MayBePatient(ln.Clock.Now, channel, p.datagramBytes())
}

// stamp writes the outstanding ACK into a packet, or into the first of several adjacent chunks.
func (ln Links) stamp(p *packet) {
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

// Only the first of the adjacent chunks in a run can contain an ACK.
func (ln Links) sealRunSequenced(r *chunkRun, run []reliability.Token) {
	ln.stamp(&r.packet)
	r.first = r.ep.Snd.AdmitRun(run)
	r.packets = uint32(len(run))
	r.number = r.ep.Numbers.Take(&ln.Buffers.Source, ViaData, r.packets)
	r.frag.out += r.packets
	ln.Count[stats.CntSentChunk] += uint64(len(run))
	r.ep.Snd.PostRun(ln.Clock.Now, run, r.first, reliability.Data, ln.Config.PeerTimeout/4)
}
