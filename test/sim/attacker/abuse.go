package attacker

import (
	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// The type link holds what is known about one side of a connection, including the side's tag. With
// the information in a link, an attacker can send valid packets to that side in the name of the
// peer.
type link struct {
	conn     uint64  // the target's tag
	from, to int     // nodes
	base     seq.Num // the first number that the target has not acknowledged
	next     seq.Num // the first number not used towards the target
	peerNext seq.Num // the first number that the target has not used
	acked    seq.Num // the last of the target's numbers that was acknowledged
	window   uint32  // packets
	room     uint32  // payload of a chunk, bytes
	counted  bool    // a reliable connection: its packets are counted
	count    seq.Num // the number of the next one there
	handle   uint64  // of a region of the target, if one was seen
	fragID   uint32
}

// The method header returns a packet header for the connection, mostly with a valid
// acknowledgement.
func (l *link) header(kind frag.Kind, n seq.Num) frag.Header {
	h := frag.Header{Kind: kind, Conn: l.conn, Seq: n, Tag: 1}
	h.Flags, h.Ack, h.Credit = frag.FlagAck, l.acked, 64
	h.CreditBytes = frag.CreditBytesAll
	return h
}

// The method number draws a packet number, which is mostly the next one or the oldest missing one.
func (a *Attacker) number(l *link) seq.Num {
	switch a.rng.IntN(16) {
	case 0, 1, 2, 3, 4:
		return l.base
	case 5:
		return l.base + seq.Num(a.rng.Uint32N(max(1, l.window)))
	}
	if l.next.Sub(l.base) >= int32(l.window) {
		l.next = l.base
	}
	l.next++
	return l.next - 1
}

// give sends one packet of the connection to the target.
func (a *Attacker) give(what act, l *link, h frag.Header, n int) {
	from, to := a.ports(l, &h)
	a.packet(what, from, to, h, n)
}

// ports draws the channels of a packet. In a reliable connection, number mostly draws no number or
// the right one, because a wrong one is detected at once.
func (a *Attacker) ports(l *link, h *frag.Header) (from, to sim.Port) {
	from, to = sim.Port{Node: l.from}, sim.Port{Node: l.to}
	if !l.counted || a.chance(64) {
		from.Index, to.Index = a.rng.IntN(2), a.rng.IntN(2)
		return from, to
	}
	if !h.Kind.HasSeq() {
		from.Index, to.Index = 1, 1
		return from, to
	}
	h.Seq = 0
	l.count = max(1, l.count)
	if a.chance(4) {
		h.Seq = l.count
	}
	l.count++
	if !a.chance(8) {
		h.Flags &^= frag.FlagAck | frag.FlagDup
		h.Ack, h.Credit = 0, 0
	}
	return from, to
}

// abuse sends a packet that no honest peer sends, or a valid packet at a wrong time.
func (a *Attacker) abuse(l *link) {
	switch a.rng.IntN(22) {
	case 20, 21:
		a.abuseSize(l)
	case 0, 1:
		a.abuseAck(l)
	case 2:
		h := l.header(frag.KindNack, l.peerNext-seq.Num(a.rng.IntN(16))+4)
		h.Tag = frag.NackAccess + uint8(a.rng.IntN(2))
		a.give(actNack, l, h, 0)
	case 16:
		a.nackRecord(l)
	case 17, 18, 19:
		a.abusePack(l)
	case 3, 4:
		a.abusePut(l)
	case 5:
		a.abuseWindow(l)
	case 6:
		for range 1 + a.rng.IntN(64) { // however many credits there are
			a.give(actCredit, l, l.header(frag.KindFrag, a.number(l)), a.rng.IntN(300))
		}
	case 7:
		a.abuseMark(l)
	case 8:
		a.abuseHello(l)
	case 9:
		h := l.header(frag.KindFrag, a.number(l))
		h.Tag = uint8(a.rng.IntN(256)) // no handler, or no packet
		a.give(actFrag, l, h, a.rng.IntN(100))
	case 10, 11:
		a.give(actFrag, l, l.header(frag.KindFrag, a.number(l)), a.rng.IntN(packetBytesMax))
	default:
		a.abuseChunk(l)
	}
}

// abuseAck acknowledges packets that were never sent or already acknowledged, or grants impossible
// credits.
func (a *Attacker) abuseAck(l *link) {
	h := l.header(frag.KindAck, 0)
	h.Tag = 0
	switch a.rng.IntN(8) {
	case 0:
		h.Ack = l.peerNext + seq.Num(a.rng.IntN(32))
	case 1:
		h.Ack = l.acked + 1<<31 - 4 + seq.Num(a.rng.IntN(8))
	case 2:
		h.Ack = l.acked - seq.Num(a.rng.IntN(1<<16))
	case 3:
		h.Ack = a.num()
	case 4:
		h.Ack = l.peerNext - 1
		l.acked = h.Ack
	}
	switch a.rng.IntN(4) {
	case 0:
		h.Credit = 1<<16 - 1
	case 1:
		h.Credit = 0
	}
	if a.chance(3) {
		h.Flags |= frag.FlagDup
	}
	a.give(actAck, l, h, 0)
}

// abusePut sends puts to memory that does not exist, or that the sender may not write.
func (a *Attacker) abusePut(l *link) {
	h := l.header(frag.KindFrag, a.number(l))
	h.Flags |= frag.FlagPut
	h.Tag = 0
	n := 1 + a.rng.IntN(256)
	h.Handle = a.rng.Uint64()
	region, known := a.region(l)
	switch {
	case known && a.chance(2): // true, and over the end
		h.Handle = region.Handle
		h.PutOffset = region.SizeBytes - min(region.SizeBytes, uint64(n-1)) // by one byte
		switch a.rng.IntN(4) {
		case 0:
			h.PutOffset = beyond(a.rng.IntN(6), n)
		case 1:
			h.PutOffset = region.SizeBytes - min(region.SizeBytes, uint64(a.rng.IntN(n)))
		}
	case known && !a.chance(3): // true, but for one bit
		h.Handle = region.Handle ^ 1<<a.rng.IntN(64)
	case l.handle != 0 && a.chance(2):
		h.Handle, h.PutOffset = l.handle, beyond(a.rng.IntN(6), n)
	case l.handle != 0:
		h.Handle = l.handle ^ 1<<a.rng.IntN(64)
	}
	if a.chance(3) {
		h.Kind, h.FragID = frag.KindChunk, a.rng.Uint32()
		h.SizeBytes, h.OffsetBytes = 1<<20, a.rng.Uint32N(1<<19)
	}
	a.give(actPut, l, h, n)
}

// beyond returns one of several offsets outside of a region, for which offset plus n may overflow.
func beyond(i, n int) uint64 {
	return []uint64{1 << 40, 1 << 63, -uint64(n), -uint64(n) - 1, 1<<32 - 1, 1<<31 - 1}[i]
}

// region draws a region of the target whose handle the attacker knows.
func (a *Attacker) region(l *link) (Region, bool) {
	if len(a.cfg.Regions) == 0 {
		return Region{}, false
	}
	r := a.cfg.Regions[a.rng.IntN(len(a.cfg.Regions))]
	return r, r.Node == l.to
}

// abuseWindow sends packet numbers at both edges of the window and beyond.
func (a *Attacker) abuseWindow(l *link) {
	n := l.base
	switch a.rng.IntN(6) {
	case 0:
		n += seq.Num(l.window - 1)
	case 1:
		n += seq.Num(l.window)
	case 2:
		n += seq.Num(l.window) + seq.Num(a.rng.IntN(1<<16))
	case 3:
		n += 1 << 31
	case 4:
		n -= seq.Num(1 + a.rng.IntN(1<<16))
	default:
		n = a.num()
	}
	a.give(actWindow, l, l.header(frag.KindFrag, n), a.rng.IntN(64))
}

// abuseMark ends the connection early, or sends Voids for packets that were not refused.
func (a *Attacker) abuseMark(l *link) {
	h := l.header(frag.KindFrag, a.number(l))
	switch a.rng.IntN(8) {
	case 0:
		h.Tag = frag.TagBye
	case 1:
		h.Tag, h.Seq = frag.TagBye, l.base+seq.Num(a.rng.IntN(32))
	case 2:
		h.Tag = 0xF0 + uint8(a.rng.IntN(14)) // reserved
	default:
		h.Tag = frag.TagVoid
	}
	a.give(actMark, l, h, 0)
}

// abuseHello repeats the Hello of an existing connection with other values or another name.
func (a *Attacker) abuseHello(l *link) {
	for range 1 + a.rng.IntN(16) {
		a.fillHello()
		a.hello.CommandName = sim.Port{Node: l.from}.Name()
		a.hello.DataName = sim.Port{Node: l.from, Index: 1}.Name()
		if a.chance(2) {
			a.hello.Incarnation, a.hello.Tag = a.knownHello()
		}
		kind, what := frag.KindHello, actHello
		if a.chance(3) {
			kind, what = frag.KindHelloAck, actHelloAck
		}
		n := a.encodeHello(kind, l.conn)
		to := sim.Port{Node: l.to, Index: int(a.hello.Probe)}
		a.send(what, sim.Port{Node: l.from}, to, n)
	}
	if a.chance(4) {
		a.reject(sim.Port{Node: l.from}, sim.Port{Node: l.to}, l.conn)
	}
}

// knownHello returns the identity fields of a valid Hello of the connection.
func (a *Attacker) knownHello() (incarnation, tag uint64) {
	if a.cfg.Mode == Insider {
		return a.self.incarnation, a.self.tag
	}
	return max(1, a.theft.incarnation), max(1, a.theft.links[a.rng.IntN(2)].conn)
}

// abuseChunk sends chunks that do not fit into their fragments.
func (a *Attacker) abuseChunk(l *link) {
	room := int(max(l.room, frag.ChunkBytesMin))
	h := l.header(frag.KindChunk, a.number(l))
	l.fragID++
	h.FragID, h.SizeBytes = l.fragID, uint32(room)*uint32(2+a.rng.IntN(40))
	h.FirstBytes, h.ChunkBytes = uint16(room), uint16(room)
	switch a.rng.IntN(9) {
	case 0: // larger than anybody takes, or than memory
		h.SizeBytes = 1<<32 - 1 - a.rng.Uint32N(1<<31)
		a.give(actOversize, l, h, room)
	case 1: // off the grid: if it were taken, a part of the whole would be what was there before
		h.SizeBytes, h.OffsetBytes = uint32(2*room), 1+a.rng.Uint32N(uint32(room)-1)
		a.give(actBadChunk, l, h, room)
		h.Seq, h.OffsetBytes = a.number(l), uint32(room)
		a.give(actBadChunk, l, h, room)
	case 2: // shorter than the grid wants
		a.give(actBadChunk, l, h, 1+a.rng.IntN(room))
	case 3: // the same piece under two numbers: if both were taken, it would stand for the whole
		if a.chance(2) {
			h.SizeBytes = uint32(2 * room)
		}
		a.give(actOverlap, l, h, room)
		h.Seq = a.number(l)
		a.give(actOverlap, l, h, room)
	case 4: // another size, or tag, than before
		a.give(actOverlap, l, h, room)
		h.Seq, h.OffsetBytes = a.number(l), uint32(room)
		if a.chance(2) {
			h.Tag++
		} else {
			h.SizeBytes += uint32(room)
		}
		a.give(actOverlap, l, h, room)
	case 5: // a whole fragment, in reverse order
		h.SizeBytes = uint32(room) * 3
		for i := 2; i >= 0; i-- {
			h.OffsetBytes = uint32(i * room)
			a.give(actChunk, l, h, room)
			h.Seq = a.number(l)
		}
	case 6: // a piece of one grid, then one of another: together they would leave a hole
		h.FirstBytes, h.SizeBytes = uint16(room), uint32(2*room)
		a.give(actOverlap, l, h, room)
		h.Seq, h.OffsetBytes = a.number(l), uint32(room)+1
		h.FirstBytes++
		a.give(actOverlap, l, h, room-1)
	case 7: // an id far away that needs a large table
		h.FragID = a.rng.Uint32()
		a.give(actUnfinished, l, h, room)
	default: // begun and never finished
		for range 1 + a.rng.IntN(8) {
			h.SizeBytes = uint32(room) * uint32(2+a.rng.IntN(700))
			a.give(actUnfinished, l, h, room)
			l.fragID++
			h.FragID, h.Seq = l.fragID, a.number(l)
		}
	}
}
