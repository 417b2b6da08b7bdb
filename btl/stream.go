package btl

import (
	"gobtl/btl/internal/port"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Adjacent large fragments in a queue share a packet where they meet: a pack has the end of one and
// as much of the beginning of the next as fits. So a stream of messages of any size fills equal
// datagrams, which suit segmentation offload. No fragment is delayed for that: only those already
// queued are mixed.
//
//	queue:    A           B               C
//	packets:  A   A   A+B   B   B   B   B+C  ...  sendChunks, sendMixed, sendChunks, sendMixed

const (
	// pieceBytesMin is the smallest beginning of a fragment that is sent as a piece. So short a
	// piece gains little by itself, but a datagram that is shorter than the others ends a
	// segmentation-offload train.
	pieceBytesMin = 1
	// splitsMax bounds the distance of ids between the oldest unfinished chunked fragment and the
	// newest: two ids at that distance share a slot at the peer.
	splitsMax = frag.ActiveMax
	// mixBytesDefault is the default of Config.MixBytes: Ethernet packets, jumbo frames included.
	// Larger packets hardly gain from segmentation offload, and mixing copies the payload.
	mixBytesDefault = 9000
)

// mixable says whether a fragment may share packets with others, in the form of pieces.
func (ep *Endpoint) mixable(f *Fragment) bool {
	return !ep.id.Counted && ep.mtu <= ep.m.cfg.MixBytes && f.flags() == 0 && f.vec == nil &&
		f.tag <= frag.TagUserMax && !ep.behindFence(f)
}

// mixes says whether the unsent rest of a large fragment leaves room in its packet, and a next
// fragment is queued.
func (ep *Endpoint) mixes(f *Fragment) bool {
	next := f.next
	if next == nil || !ep.mixable(f) || !ep.mixable(next) || ep.holds(next) {
		return false
	}
	rest, head := int(f.size-f.cursor), frag.RecordHeaderBytes
	if f.cursor > 0 {
		if rest > int(f.chunk) {
			return false
		}
		head += frag.PieceExtraBytes
	}
	left := ep.mtu - frag.FragHeaderBytes - head - rest
	return left >= frag.RecordHeaderBytes+min(int(next.size), frag.PieceExtraBytes+pieceBytesMin)
}

// chunksOf is the number of chunks, of packet bytes each, left of a fragment, without a short last
// one that may be mixed with the next fragment.
func (ep *Endpoint) chunksOf(f *Fragment, packet int) int {
	left := int(f.size - f.cursor)
	if whole := left / packet; whole > 0 && f.next != nil && ep.mixable(f) && ep.mixable(f.next) {
		return whole
	}
	return 1 + (left-1)/packet
}

// mix is a pack under construction, from fragments of the large queue.
type mix struct {
	packet
	buf    []byte
	bytes  int       // of the datagram so far
	ends   int       // fragments from the front of the queue on that end in it
	begins *Fragment // the one that goes on in the next packet
}

// sendMixed sends the rest of the first large fragment together with those behind it. It returns
// the packet's length, 0 if there is no room for it now.
func (m *Module) sendMixed(ep *Endpoint) int {
	c, to := ep.bulkPath()
	if ep.roomOn(c) <= 0 || c.Batched() >= port.BatchMax/2 || ep.bulkRoom() <= 0 {
		return 0
	}
	var one [1]reliability.Token
	run := m.takeBulk(ep.large.queue.first, 1, one[:0])
	if len(run) == 0 {
		return 0
	}
	t := run[0]
	x := mix{buf: m.port.Arena.Bytes(segBuf(t)), bytes: frag.FragHeaderBytes}
	for f := ep.large.queue.first; f != nil && x.begins == nil && x.add(ep, f); f = f.next {
	}
	x.ep, x.seg = ep, t
	x.Kind, x.PayloadLen = frag.KindPack, uint16(x.bytes-frag.FragHeaderBytes)
	s := &m.segs[t]
	s.pack, s.mixed = true, true
	n := m.seal(&x.packet)
	s.begins = x.begins
	var last *Fragment
	for range x.ends {
		f := ep.large.queue.first
		f.out, f.cursor = f.out+1, f.size
		m.unqueue(ep, f)
		if last == nil {
			s.frag = f
		} else {
			last.next = f
		}
		last = f
	}
	if f := x.begins; f != nil {
		f.out++
		f.cursor = uint32(f.first)
		m.gathers(f)
		m.stats.counters[CntSentPieces]++
	}
	m.stats.counters[CntPacked] += uint64(x.ends)
	ep.bursts = true
	m.putSegment(c, t, to)
	return n
}

// add copies the rest of a fragment, or its beginning, into the pack. False means that no byte of
// it fits.
func (x *mix) add(ep *Endpoint, f *Fragment) bool {
	room := ep.mtu - x.bytes - frag.RecordHeaderBytes
	if !ep.mixable(f) || ep.holds(f) {
		return false
	}
	if f.cursor > 0 { // the first of all, for which there is room
		x.putPiece(f, f.mem[f.cursor:])
		x.ends++
		ep.m.stats.counters[CntSentPieces]++
		return true
	}
	if int(f.size) <= room {
		x.bytes += frag.PutRecord(x.buf[x.bytes:], f.tag, f.mem)
		x.ends++
		return true
	}
	room -= frag.PieceExtraBytes
	if room < pieceBytesMin || !ep.mayNumber(splitsMax/2) {
		return false
	}
	ep.numberFragment(f)
	f.first, f.chunk = uint16(room), uint16(ep.mtu-frag.ChunkHeaderBytes)
	x.putPiece(f, f.mem[:room])
	x.begins = f
	return true
}

// putPiece copies a piece of a fragment into the pack, from its cursor on.
func (x *mix) putPiece(f *Fragment, payload []byte) {
	x.bytes += frag.PutPiece(x.buf[x.bytes:], f.tag, frag.Piece{
		FragID: f.id, SizeBytes: f.size, OffsetBytes: f.cursor,
		FirstBytes: f.first, ChunkBytes: f.chunk,
	}, payload)
}

// failBegun fails a fragment whose beginning the peer has refused: its rest is not sent.
func (m *Module) failBegun(f *Fragment, tag uint8) {
	if f == nil || f.tag != tag || f.err != nil {
		return
	}
	f.err = ErrNoHandler
	if f.state == fragQueued {
		m.unqueue(f.ep, f)
	}
}

// fragIDs numbers the fragments in chunks.
type fragIDs struct {
	last     uint32  // given
	finished uint32  // all up to this one are over
	markID   uint32  // was given in the packet
	mark     seq.Num // with this number: when that is acknowledged, those before it are over
}

// init starts the ids after an arbitrary number.
func (n *fragIDs) init(last uint32) { n.last, n.finished, n.markID = last, last, last }

// numberFragment gives a fragment its number; its first packet is the next one.
func (ep *Endpoint) numberFragment(f *Fragment) {
	n := &ep.fragIDs
	ep.finishIDs()
	n.last++
	f.id = n.last
	if n.markID == n.finished {
		_, n.mark = ep.snd.Window()
		n.markID = n.last
	}
}

// mayNumber says whether a further fragment may get a number, as the oldest possibly unfinished one
// must not be too far back.
func (ep *Endpoint) mayNumber(most uint32) bool {
	ep.finishIDs()
	return ep.fragIDs.last-ep.fragIDs.finished < most
}

// finishIDs marks ids as finished if the marked packet is no longer in flight.
func (ep *Endpoint) finishIDs() {
	n := &ep.fragIDs
	if oldest, next := ep.snd.Window(); uint32(n.mark-oldest) >= uint32(next-oldest) {
		n.finished = n.markID
	}
}
