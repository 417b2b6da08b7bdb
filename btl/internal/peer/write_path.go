package peer

import (
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// SendPing sends a Ping (path MTU probe) or a Pong (the reply to a Ping) on the channel c, and
// reports whether the channel had room for the packet.
func (wr *Writer) SendPing(
	ep *Endpoint, kind frag.Kind, c *port.Channel, nonce uint64, sizeBytes int,
) bool {
	to := ep.addrOn(c.Which)
	b, ok := wr.Buffers.TakeControl(c, to)
	if !ok {
		return false
	}
	h := frag.Header{
		Kind: kind, Conn: ep.ID.Peer.Tag, Number: ep.Numbers.Take(&wr.Buffers.Source, c.Which, 1),
	}
	n := frag.EncodePing(wr.Port.Arena.Bytes(b), &h, nonce, sizeBytes)
	wr.Count[sentCounter[kind]]++
	wr.putControl(ep, c, b, n, to)
	if kind == frag.KindPing { // the fabric must send a Ping without coalescing
		c.SetApart(b)
	}
	return true
}

// putParts divides the packet in a send buffer into Parts (slices that fit into datagrams), and
// adds these Parts to the data channel's batch.
func (wr *Writer) putParts(ep *Endpoint, t reliability.Token) {
	s := &wr.Buffers.segs[t]
	total := int(s.bytes)
	head := wr.Port.Arena.Bytes(fabric.Buf(t))[:total-int(s.gatherLen)]
	var tail []byte
	if s.gatherLen > 0 {
		tail = s.frag.Data.Gathered(s.gatherAt, s.gatherLen)
	}
	n := wr.Buffers.seqOf(t)
	_, slice := frag.PartsOf(total, ep.MTU())
	for at := 0; at < total; at += slice {
		b := wr.Port.TakePart(ep.dataAddr)
		number := ep.Numbers.Take(&wr.Buffers.Source, ViaData, 1)
		h := frag.Header{Conn: ep.ID.Peer.Tag, Seq: n, Number: number}
		k := min(slice, total-at)
		pkt := wr.Port.Arena.Bytes(b)
		from := frag.PutPart(pkt, &h, at, total, k)
		copied := 0
		if at < len(head) {
			copied = copy(pkt[from:][:k], head[at:])
		}
		copy(pkt[from:][copied:k], tail[max(0, at-len(head)):])
		wr.Count[stats.CntSentPart]++
		wr.putControl(ep, &wr.Port.Data, b, from+k, ep.dataAddr)
	}
	s.parted = true
}
