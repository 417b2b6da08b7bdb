package attacker

import (
	"gobtl/fabric/sim"
	"gobtl/frag"
)

// abuseSize sends Pings, Pongs and Parts that no honest peer sends.
func (a *Attacker) abuseSize(l *link) {
	switch a.rng.IntN(6) {
	case 0: // more than are answered
		for range 1 + a.rng.IntN(64) {
			a.ping(l, frag.KindPing, frag.PingBytesMin+a.rng.IntN(packetBytesMax-frag.PingBytesMin))
		}
	case 1: // of no Ping
		for range 1 + a.rng.IntN(8) {
			a.ping(l, frag.KindPong, frag.PongBytes)
		}
	case 2: // a packet in Parts, of which some may be missing, in any order, and some come twice
		a.parts(l, a.inner(l, a.chance(2)))
	case 3: // a part of a datagram as large as there is, of a number anywhere in the window
		h := frag.Header{
			Conn: l.conn, Seq: l.base.Add(a.rng.Uint32N(max(1, l.window))),
		}
		n := frag.PartGrain * (1 + a.rng.IntN(8))
		total := 2*n + a.rng.IntN(frag.PartTotalMax-2*n)
		a.part(l, &h, a.rng.IntN((total-n)/frag.PartGrain+1)*frag.PartGrain, total, n)
	default:
		a.parts(l, a.inner(l, false))
	}
}

// ping sends a Ping, or a Pong.
func (a *Attacker) ping(l *link, kind frag.Kind, sizeBytes int) {
	h := frag.Header{Kind: kind, Conn: l.conn}
	n := frag.EncodePing(a.buf, &h, a.rng.Uint64(), sizeBytes)
	from, to := a.ports(l, &h)
	a.send(actPing, from, to, n)
}

// inner makes a packet of the connection, and a bad one is of a kind that Parts may not contain.
func (a *Attacker) inner(l *link, bad bool) []byte {
	h := frag.Header{Kind: frag.KindFrag, Conn: l.conn, Seq: a.number(l), Tag: 1, PayloadLen: 1200}
	b := make([]byte, frag.FragHeaderBytes+int(h.PayloadLen))
	fill(b, Filler)
	if bad {
		// The bytes of an invalid packet agree with those of valid packets, because slices of both may be
		// combined.
		switch a.rng.IntN(4) {
		case 0:
			h.Conn ^= 1 << a.rng.IntN(64)
		case 1:
			h.PayloadLen--
		case 2:
			h.Kind, h.Tag, h.Seq = frag.KindPing, 0, 0
		default:
			h.Tag = frag.TagUserMax + 1
		}
	}
	h.Encode(b)
	return b
}

// The method parts sends a datagram in Parts.
func (a *Attacker) parts(l *link, datagram []byte) {
	h := frag.Header{Conn: l.conn, Seq: frag.SeqOf(datagram)}
	slice := frag.PartGrain * (1 + a.rng.IntN(10))
	for at := 0; at < len(datagram); at += slice {
		n := min(slice, len(datagram)-at)
		if a.chance(40) || n == len(datagram) {
			continue
		}
		for range 1 + a.rng.IntN(5)/4 {
			p := h
			head := frag.PutPart(a.buf, &p, at, len(datagram), n)
			copy(a.buf[head:], datagram[at:][:n])
			a.send(actPart, sim.Port{Node: l.from, Index: 1}, sim.Port{Node: l.to, Index: 1}, head+n)
		}
	}
}

// part sends a slice of a packet that does not exist.
func (a *Attacker) part(l *link, h *frag.Header, offset, total, n int) {
	head := frag.PutPart(a.buf, h, offset, total, n)
	fill(a.buf[head:][:n], Filler)
	a.send(actPart, sim.Port{Node: l.from, Index: 1}, sim.Port{Node: l.to, Index: 1}, head+n)
}
