package btl

import (
	"gobtl/btl/internal/port"
	"gobtl/frag"
	"gobtl/reliability"
)

// Adjacent large fragments in a queue may share a packet, which holds the end of one
// fragment and as much of the beginning of the next as fits. A stream of messages of any
// size fills packets of equal size, which suits segmentation offload. No fragment is
// delayed in order to share a packet, because only queued fragments share packets.
//
//	queue:    A           B               C
//	packets:  A   A   A+B   B   B   B   B+C  ...  sendChunks, sendMixed, sendChunks, sendMixed

const (
	// pieceBytesMin is the minimum size of a fragment's beginning in a shared packet, in bytes.
	pieceBytesMin = 1
	// splitsMax is the maximum distance between the ids of the oldest incomplete chunked fragment
	// and of the newest one.
	splitsMax = frag.ActiveMax
	// mixMTUBytesMax is the largest MTU, in bytes, at which large fragments share packets: that of
	// Ethernet jumbo frames. At a larger MTU most packets are not the last of their fragment.
	mixMTUBytesMax = 9000
)

// mixable reports whether a large fragment may share packets with other large fragments.
func (ep *Endpoint) mixable(f *Fragment) bool {
	return !ep.id.Counted && ep.mtu <= mixMTUBytesMax && ep.m.cfg.PackBytes > 1 && f.flags() == 0 &&
		!f.data.Scattered() && f.tag <= frag.TagUserMax && !ep.behindFence(f)
}

// mixes reports whether the last packet of the large fragment f has room for the beginning of the
// next queued large fragment.
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

// chunksOf returns the number of unsent chunks of fragment f, each with a payload of packet bytes.
// A short last chunk is not counted if it may share a packet with the next fragment.
func (ep *Endpoint) chunksOf(f *Fragment, packet int) int {
	left := int(f.size - f.cursor)
	if whole := left / packet; whole > 0 && f.next != nil && ep.mixable(f) && ep.mixable(f.next) {
		return whole
	}
	return 1 + (left-1)/packet
}

// mix is a shared packet under construction, made of fragments from the queue of large ones.
type mix struct {
	packet
	buf    []byte
	bytes  int       // size of the datagram so far
	ends   int       // number of fragments that end in this packet
	begins *Fragment // the fragment that begins in this packet, if any
}

// sendMixed sends one packet with the rest of the first large fragment and with queued
// fragments behind it. sendMixed returns the packet's length in bytes, or 0 if the packet
// cannot be sent now.
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

// add copies the rest of a fragment, or as much of its beginning as fits, to the shared packet. add
// returns false if no byte of the fragment fits, or if the fragment may not share a packet.
func (x *mix) add(ep *Endpoint, f *Fragment) bool {
	room := ep.mtu - x.bytes - frag.RecordHeaderBytes
	if !ep.mixable(f) || ep.holds(f) {
		return false
	}
	if f.cursor > 0 { // only the first fragment, for which there is room
		x.putPiece(f, f.data.Bytes[f.cursor:])
		x.ends++
		ep.m.stats.counters[CntSentPieces]++
		return true
	}
	if int(f.size) <= room {
		x.bytes += frag.PutRecord(x.buf[x.bytes:], f.tag, f.data.Bytes)
		x.ends++
		return true
	}
	room -= frag.PieceExtraBytes
	if room < pieceBytesMin || !ep.mayNumber(splitsMax/2) {
		return false
	}
	ep.numberFragment(f)
	f.first, f.chunk = uint16(room), uint16(ep.mtu-frag.ChunkHeaderBytes)
	x.putPiece(f, f.data.Bytes[:room])
	x.begins = f
	return true
}

// putPiece copies payload, a part of fragment f at f.cursor, to the shared packet.
func (x *mix) putPiece(f *Fragment, payload []byte) {
	x.bytes += frag.PutPiece(x.buf[x.bytes:], f.tag, frag.Piece{
		FragID: f.id, SizeBytes: f.size, OffsetBytes: f.cursor,
		FirstBytes: f.first, ChunkBytes: f.chunk,
	}, payload)
}

// failBegun ends fragment f with an error if f has the tag that the peer has refused.
func (m *Module) failBegun(f *Fragment, tag uint8) {
	if f == nil || f.tag != tag || f.err != nil {
		return
	}
	f.err = ErrNoHandler
	if f.state == fragQueued {
		m.unqueue(f.ep, f)
	}
}

// numberFragment gives a fragment the next id.
func (ep *Endpoint) numberFragment(f *Fragment) { f.id = ep.fragIDs.Take(ep.snd.Window()) }

// mayNumber reports whether a further fragment may get an id. The latest fragment id must be less
// than most ahead of the oldest fragment that may be incomplete.
func (ep *Endpoint) mayNumber(most uint32) bool {
	oldest, next := ep.snd.Window()
	return ep.fragIDs.MayTake(most, oldest, next)
}
