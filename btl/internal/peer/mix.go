package peer

import (
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// Over an unreliable fabric, two adjacent large fragments in a queue can share a packet, with the
// end of the first fragment and as much of the beginning of the second fragment as fits. If large
// fragments share packets, a stream of messages of any size fills packets of equal size, which
// segmentation offload requires. No fragment is delayed to share a packet with a fragment that the
// application might send next.
//
//	queue:    A           B               C
//	packets:  A   A   A+B   B   B   B   B+C  ...  sendChunks, sendMixed, sendChunks, sendMixed

const (
	// pieceBytesMin is the minimum number of bytes from the beginning of a large fragment in a packet
	// that also contains the end of the previous fragment.
	pieceBytesMin = 1
	// splitsMax is the maximum difference between the id of the newest and the id of the oldest
	// incomplete fragment that is sent in chunks.
	splitsMax = frag.ActiveMax
	// mixMTUBytesMax is the largest MTU, in bytes, at which large fragments share packets. Its
	// value is the MTU of Ethernet jumbo frames.
	mixMTUBytesMax = 9000
)

// mixable reports whether a large fragment is allowed to share its first and its last packet with a
// second large fragment.
func (pk Packs) mixable(ep *Endpoint, f *Fragment) bool {
	return !ep.ID.Counted && ep.MTU() <= mixMTUBytesMax && pk.Config.PackBytes > 1 && f.flags() == 0 &&
		!f.Data.Scattered() && f.tag <= frag.TagUserMax && !ep.Flushes.Behind(f.fence)
}

// mixes reports whether the last packet of the large fragment f has room for the beginning of the
// next queued large fragment.
func (pk Packs) mixes(ep *Endpoint, f *Fragment) bool {
	next := f.next
	if next == nil || !pk.mixable(ep, f) || !pk.mixable(ep, next) || ep.holds(next) {
		return false
	}
	rest, head := int(f.size-f.cursor), frag.RecordHeaderBytes
	if f.cursor > 0 {
		if rest > int(f.chunk) {
			return false
		}
		head += frag.PieceExtraBytes
	}
	left := ep.MTU() - frag.FragHeaderBytes - head - rest
	return left >= frag.RecordHeaderBytes+min(int(next.size), frag.PieceExtraBytes+pieceBytesMin)
}

// chunksOf returns the number of unsent chunks of fragment f, where "packet" is the number of
// payload bytes in a chunk. chunksOf does not count a short last chunk that can share a packet with
// the next fragment.
func (pk Packs) chunksOf(ep *Endpoint, f *Fragment, packet int) int {
	left := int(f.size - f.cursor)
	whole := left / packet
	if whole > 0 && f.next != nil && pk.mixable(ep, f) && pk.mixable(ep, f.next) {
		return whole
	}
	return 1 + (left-1)/packet
}

// mix is a packet under construction, with data of several queued large fragments.
type mix struct {
	packet
	buf    []byte
	bytes  int       // size of the datagram so far
	ends   int       // number of fragments that end in this packet
	begins *Fragment // the fragment that begins in this packet, if any
}

// sendMixed sends one packet with the rest of the first queued large fragment and as many bytes of
// the next queued fragments as fit. sendMixed returns the packet's length in bytes, or 0 if the
// packet cannot be sent at present.
func (pk Packs) sendMixed(ep *Endpoint) int {
	c, to := ep.bulkPath()
	if ep.roomOn(c) <= 0 || len(c.Batch) >= port.BatchMax/2 || ep.BulkRoom() <= 0 {
		return 0
	}
	var one [1]reliability.Token
	run := pk.Buffers.takeBulk(ep.large.queue.first, 1, one[:0])
	if len(run) == 0 {
		return 0
	}
	t := run[0]
	x := mix{buf: pk.Port.Arena.Bytes(fabric.Buf(t)), bytes: frag.FragHeaderBytes}
	for f := ep.large.queue.first; f != nil && x.begins == nil && x.add(ep, f); f = f.next {
	}
	x.ep, x.seg = ep, t
	x.Kind, x.PayloadLen = frag.KindPack, uint16(x.bytes-frag.FragHeaderBytes)
	s := &pk.Buffers.segs[t]
	s.pack, s.mixed = true, true
	n := pk.Links.seal(&x.packet)
	s.begins = x.begins
	var last *Fragment
	for range x.ends {
		f := ep.large.queue.first
		f.out, f.cursor = f.out+1, f.size
		pk.Sender.unqueue(ep, f)
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
		pk.Frags.gathers(f)
		pk.Count[stats.CntSentPieces]++
	}
	pk.Count[stats.CntPacked] += uint64(x.ends)
	ep.bursts = true
	pk.Buffers.putSegment(c, t, to)
	return n
}

// add copies the rest of a fragment, or as much of its beginning as fits, to the packet. add
// reports whether it has copied bytes of the fragment, which requires that at least one byte fits,
// and that the fragment is allowed to share a packet.
func (x *mix) add(ep *Endpoint, f *Fragment) bool {
	room := ep.MTU() - x.bytes - frag.RecordHeaderBytes
	if !ep.All.Packs.mixable(ep, f) || ep.holds(f) {
		return false
	}
	if f.cursor > 0 { // only for the first fragment, which always fits
		x.putPiece(f, f.Data.Bytes[f.cursor:])
		x.ends++
		ep.All.Count[stats.CntSentPieces]++
		return true
	}
	if int(f.size) <= room {
		x.bytes += frag.PutRecord(x.buf[x.bytes:], f.tag, f.Data.Bytes)
		x.ends++
		return true
	}
	room -= frag.PieceExtraBytes
	if room < pieceBytesMin || !ep.mayNumber(splitsMax/2) {
		return false
	}
	ep.numberFragment(f)
	f.first, f.chunk = uint16(room), uint16(ep.MTU()-frag.ChunkHeaderBytes)
	x.putPiece(f, f.Data.Bytes[:room])
	x.begins = f
	return true
}

// putPiece copies the argument "payload", which contains the next bytes of fragment f, to the
// packet.
func (x *mix) putPiece(f *Fragment, payload []byte) {
	x.bytes += frag.PutPiece(x.buf[x.bytes:], f.tag, frag.Piece{
		FragID: f.id, SizeBytes: f.size, OffsetBytes: f.cursor,
		FirstBytes: f.first, ChunkBytes: f.chunk,
	}, payload)
}

// numberFragment gives a fragment the next id.
func (ep *Endpoint) numberFragment(f *Fragment) { f.id = ep.large.fragIDs.Take(ep.Snd.Window()) }

// mayNumber reports whether an id is available for one more fragment. An id is available if the
// latest fragment id is less than "most" ahead of the id of the oldest fragment that is possibly
// incomplete.
func (ep *Endpoint) mayNumber(most uint32) bool {
	oldest, next := ep.Snd.Window()
	return ep.large.fragIDs.MayTake(most, oldest, next)
}
