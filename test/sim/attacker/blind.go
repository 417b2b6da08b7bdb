package attacker

import (
	"gobtl/fabric/sim"
	"gobtl/frag"
)

// blind sends packets for which only addresses must be known.
func (a *Attacker) blind() {
	from, to := a.anySource(), a.anyTarget()
	switch a.rng.IntN(8) {
	case 0:
		a.junk(from, to)
	case 1:
		a.helloOf(from, to)
	case 2:
		a.reject(from, to, a.guess())
	case 3: // as long as what others send
		a.packet(actStranger, from, to, a.header(a.guess()), packetBytesMax)
	default:
		a.packet(actStranger, from, to, a.header(a.guess()), a.rng.IntN(200))
	}
}

// guess draws a connection tag. The low bits of a tag are a small index, which is easy to guess.
func (a *Attacker) guess() uint64 {
	switch a.rng.IntN(4) {
	case 0:
		return 1 + a.rng.Uint64N(64)
	case 1:
		return a.rng.Uint64()<<20 | a.rng.Uint64N(64)
	}
	return max(1, a.rng.Uint64())
}

// The method header draws the header of a well-formed packet of any kind except the handshake.
func (a *Attacker) header(conn uint64) frag.Header {
	h := frag.Header{Conn: conn, Seq: a.num(), Tag: uint8(a.rng.IntN(4))}
	switch a.rng.IntN(4) {
	case 0:
		h.Kind, h.Seq, h.Tag = frag.KindAck, 0, 0
		h.Flags |= frag.FlagAck
	case 1:
		h.Kind, h.Tag = frag.KindNack, frag.NackAccess+uint8(a.rng.IntN(2))
	case 2:
		h.Kind, h.FragID = frag.KindChunk, a.rng.Uint32()
		h.SizeBytes = 1<<16 + a.rng.Uint32N(1<<20)
		h.OffsetBytes = a.rng.Uint32N(1 << 15)
	default:
		h.Kind = frag.KindFrag
	}
	if h.Kind.HasSeq() && a.chance(4) {
		h.Flags |= frag.FlagPut
		h.Tag, h.Handle, h.PutOffset = 0, a.rng.Uint64(), a.rng.Uint64N(1<<20)
	}
	if h.Flags&frag.FlagAck != 0 || a.chance(2) {
		h.Flags |= frag.FlagAck
		h.Ack, h.Credit = a.num(), uint16(a.rng.Uint32())
	}
	return h
}

// junk sends bytes that are not a valid packet, or nearly one.
func (a *Attacker) junk(from, to sim.Port) {
	n := a.rng.IntN(packetBytesMax + 1)
	if a.chance(2) {
		n = a.rng.IntN(64)
	}
	for i := range a.buf[:n] {
		a.buf[i] = byte(a.rng.Uint32())
	}
	if n > 1 && a.chance(2) {
		a.buf[0] = frag.Magic
		a.buf[1] = byte(a.rng.IntN(3)<<4 | a.rng.IntN(9))
	}
	a.send(actJunk, from, to, n)
}

func (a *Attacker) reject(from, to sim.Port, conn uint64) {
	n := frag.EncodeReject(a.buf, conn, frag.Version, frag.Reject{
		Reason:     frag.RejectVersion + uint8(a.rng.IntN(frag.RejectAddress)),
		VersionMin: 1, VersionMax: 2,
	})
	a.send(actReject, from, to, n)
}

// forgeAck sends acknowledgements and refusals with overheard packet numbers and almost the right
// tag, with either the index or the random bits changed.
func (a *Attacker) forgeAck() {
	from, to := a.anySource(), a.anyTarget()
	conn, number, ack := a.guess(), a.num(), a.num()
	if t, ok := a.tracks.any(a.rng); ok && !a.chance(4) {
		to, number, ack = t.to, t.seq, t.ack
		if conn = t.conn ^ 1<<(20+a.rng.IntN(44)); a.chance(4) {
			conn = t.conn ^ 1<<a.rng.IntN(20)
		}
	}
	h := frag.Header{Kind: frag.KindAck, Conn: conn, Flags: frag.FlagAck}
	h.Ack, h.Credit = a.near(ack), uint16(a.rng.Uint32())
	if a.chance(4) { // what is acknowledged there is in the numbers of the other direction
		h.Ack = a.near(number)
	}
	if a.chance(2) {
		h.Flags |= frag.FlagDup
	}
	what := actAck
	switch a.rng.IntN(4) {
	case 0:
		what, h.Kind, h.Seq = actNack, frag.KindNack, a.near(number)
		h.Tag = frag.NackAccess + uint8(a.rng.IntN(2))
	case 1:
		what, h.Kind, h.Seq, h.Tag = actStranger, frag.KindFrag, a.near(number), 1
		if a.chance(4) {
			h.Tag = frag.TagBye
		}
	}
	size := 0
	if h.Kind == frag.KindFrag && h.Tag != frag.TagBye {
		size = a.rng.IntN(64)
	}
	a.packet(what, from, to, h, size)
}
