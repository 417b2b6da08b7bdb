package attacker

import (
	"gobtl/fabric/sim"
	"gobtl/frag"
)

// theft is a connection of other nodes whose tags were overheard, with one link for each direction.
type theft struct {
	nodes       [2]int
	links       [2]link
	incarnation uint64 // of either node
	after       int    // packets to hear before one is chosen
	chosen      bool
}

// overhear stores the tags and numbers of the latest connection between the two chosen nodes.
func (a *Attacker) overhear(e *sim.Event) {
	t := &a.theft
	if t.chosen {
		if e.From.Node != t.nodes[0] && e.From.Node != t.nodes[1] ||
			e.To.Node != t.nodes[0] && e.To.Node != t.nodes[1] {
			return
		}
	}
	if e.From.Node == e.To.Node || len(e.Data) < frag.FragHeaderBytes {
		return
	}
	if t.after--; !t.chosen && t.after > 0 {
		return
	}
	payload, err := frag.Decode(e.Data, &a.hdr)
	h := &a.hdr
	if err != nil || h.Conn == 0 || h.Kind == frag.KindReject || h.Kind == frag.KindRetry {
		return // which may come from a third module: the tag need not be of this pair
	}
	if !t.chosen {
		t.chosen, t.nodes = true, [2]int{e.From.Node, e.To.Node}
	}
	dir := 0 // of the packet: towards nodes[1]
	if e.To.Node == t.nodes[0] {
		dir = 1
	}
	t.take(dir, h, payload)
}

// take stores the numbers of a packet in one direction.
func (t *theft) take(dir int, h *frag.Header, payload []byte) {
	l, back := &t.links[dir], &t.links[1-dir]
	if l.conn != h.Conn {
		*l = link{
			conn: h.Conn, from: t.nodes[dir], to: t.nodes[1-dir], base: h.Seq, next: h.Seq,
			window: 4096, room: packetBytesMax - frag.ChunkHeaderBytes, acked: h.Ack, peerNext: h.Ack + 1,
		}
	}
	switch h.Kind {
	case frag.KindHello, frag.KindHelloAck:
		if len(payload) >= 8 {
			t.incarnation = le.Uint64(payload)
		}
		return
	case frag.KindFrag, frag.KindChunk, frag.KindPack:
		l.next = l.next.Max(h.Seq + 1)
		if h.Flags&frag.FlagPut != 0 {
			l.handle = h.Handle
		}
		if h.Kind == frag.KindChunk {
			l.fragID = h.FragID
			if h.OffsetBytes == 0 {
				l.room = uint32(h.PayloadLen)
			}
		}
	default:
	}
	if h.Flags&frag.FlagAck != 0 {
		l.acked = l.acked.Max(h.Ack)
	}
	if back.conn != 0 {
		back.hear(h)
	}
}

// steal misuses the connection, in either direction.
func (a *Attacker) steal() {
	if l := &a.theft.links[a.rng.IntN(2)]; l.conn != 0 && !a.chance(4) {
		a.abuse(l)
	}
}
