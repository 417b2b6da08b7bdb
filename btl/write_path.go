package btl

import (
	"gobtl/btl/internal/port"
	"gobtl/frag"
	"gobtl/reliability"
)

// sendPing sends a Ping (path MTU probe) or a Pong (the reply to a Ping) on the channel c. sendPing
// returns false if the channel has no room for the packet now.
func (m *Module) sendPing(
	ep *Endpoint, kind frag.Kind, c *port.Channel, nonce uint64, sizeBytes int,
) bool {
	to := ep.addrOn(c.Which())
	b, ok := m.takeControl(c, to)
	if !ok {
		return false
	}
	h := frag.Header{
		Kind: kind, Conn: ep.id.Peer.Tag, Number: ep.numbers.Take(&m.source, c.Which(), 1),
	}
	n := frag.EncodePing(m.port.Arena.Bytes(b), &h, nonce, sizeBytes)
	m.stats.counters[sentCounter[kind]]++
	m.putControl(ep, c, b, n, to)
	if kind == frag.KindPing { // the fabric must not coalesce a Ping with other datagrams
		c.SetApart(b)
	}
	return true
}

// putParts splits the packet of a send buffer into Parts (slices) and adds the Parts to the data
// channel's batch.
func (m *Module) putParts(ep *Endpoint, t reliability.Token) {
	s := &m.segs[t]
	total := int(s.bytes)
	head := m.port.Arena.Bytes(segBuf(t))[:total-int(s.gatherLen)]
	var tail []byte
	if s.gatherLen > 0 {
		tail = s.frag.data.Gathered(s.gatherAt, s.gatherLen)
	}
	n, slice := m.seqOf(t), 0
	_, slice = frag.PartsOf(total, ep.mtu)
	for at := 0; at < total; at += slice {
		b := m.port.TakePart(ep.dataAddr)
		h := frag.Header{Conn: ep.id.Peer.Tag, Seq: n, Number: ep.numbers.Take(&m.source, viaData, 1)}
		k := min(slice, total-at)
		pkt := m.port.Arena.Bytes(b)
		from := frag.PutPart(pkt, &h, at, total, k)
		copied := 0
		if at < len(head) {
			copied = copy(pkt[from:][:k], head[at:])
		}
		copy(pkt[from:][copied:k], tail[max(0, at-len(head)):])
		m.stats.counters[CntSentPart]++
		m.putControl(ep, &m.port.Data, b, from+k, ep.dataAddr)
	}
	s.parted = true
}
