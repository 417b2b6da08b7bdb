package peer

import (
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
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
	// splitsMax is the maximum distance between the ids of the oldest and of the newest incomplete
	// chunked fragment.
	splitsMax = frag.ActiveMax
	// mixMTUBytesMax is the largest MTU, in bytes, at which large fragments share packets: that of
	// Ethernet jumbo frames. At a larger MTU most packets are not the last of their fragment.
	mixMTUBytesMax = 9000
)

// mixable reports whether a large fragment may share packets with other large fragments.
func (pk *Packs) mixable(ep *Endpoint, f *Fragment) bool {
	return !ep.ID.Counted && ep.MTU <= mixMTUBytesMax && pk.Config.PackBytes > 1 && f.flags() == 0 &&
		!f.Data.Scattered() && f.tag <= frag.TagUserMax && !ep.behindFence(f)
}

// mixes reports whether the last packet of the large fragment f has room for the beginning of the
// next queued large fragment.
func (pk *Packs) mixes(ep *Endpoint, f *Fragment) bool {
	next := f.Next
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
	left := ep.MTU - frag.FragHeaderBytes - head - rest
	return left >= frag.RecordHeaderBytes+min(int(next.size), frag.PieceExtraBytes+pieceBytesMin)
}

// chunksOf returns the number of unsent chunks of fragment f, each with a payload of packet bytes.
// A short last chunk is not counted if it may share a packet with the next fragment.
func (pk *Packs) chunksOf(ep *Endpoint, f *Fragment, packet int) int {
	left := int(f.size - f.cursor)
	whole := left / packet
	if whole > 0 && f.Next != nil && pk.mixable(ep, f) && pk.mixable(ep, f.Next) {
		return whole
	}
	return 1 + (left-1)/packet
}

// mix is a shared packet under construction, with data of several queued large fragments.
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
func (pk *Packs) sendMixed(ep *Endpoint) int {
	c, to := ep.bulkPath()
	if ep.roomOn(c) <= 0 || c.Batched() >= port.BatchMax/2 || ep.BulkRoom() <= 0 {
		return 0
	}
	var one [1]reliability.Token
	run := pk.Buffers.takeBulk(ep.Large.Queue.First, 1, one[:0])
	if len(run) == 0 {
		return 0
	}
	t := run[0]
	x := mix{buf: pk.Port.Arena.Bytes(SegBuf(t)), bytes: frag.FragHeaderBytes}
	for f := ep.Large.Queue.First; f != nil && x.begins == nil && x.add(ep, f); f = f.Next {
	}
	x.ep, x.seg = ep, t
	x.Kind, x.PayloadLen = frag.KindPack, uint16(x.bytes-frag.FragHeaderBytes)
	s := &pk.Buffers.Segs[t]
	s.pack, s.mixed = true, true
	n := pk.Links.seal(&x.packet)
	s.begins = x.begins
	var last *Fragment
	for range x.ends {
		f := ep.Large.Queue.First
		f.Out, f.cursor = f.Out+1, f.size
		pk.Sender.unqueue(ep, f)
		if last == nil {
			s.Frag = f
		} else {
			last.Next = f
		}
		last = f
	}
	if f := x.begins; f != nil {
		f.Out++
		f.cursor = uint32(f.first)
		pk.Frags.gathers(f)
		pk.Count[stats.CntSentPieces]++
	}
	pk.Count[stats.CntPacked] += uint64(x.ends)
	ep.bursts = true
	pk.Buffers.PutSegment(c, t, to)
	return n
}

// add copies the rest of a fragment, or as much of its beginning as fits, to the shared packet. add
// returns false if no byte of the fragment fits, or if the fragment may not share a packet.
func (x *mix) add(ep *Endpoint, f *Fragment) bool {
	room := ep.MTU - x.bytes - frag.RecordHeaderBytes
	if !ep.all.Packs.mixable(ep, f) || ep.holds(f) {
		return false
	}
	if f.cursor > 0 { // only the first fragment, for which there is room
		x.putPiece(f, f.Data.Bytes[f.cursor:])
		x.ends++
		ep.all.Count[stats.CntSentPieces]++
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
	f.first, f.chunk = uint16(room), uint16(ep.MTU-frag.ChunkHeaderBytes)
	x.putPiece(f, f.Data.Bytes[:room])
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
func (st *Sent) failBegun(f *Fragment, tag uint8) {
	if f == nil || f.tag != tag || f.Err != nil {
		return
	}
	f.Err = ErrNoHandler
	if f.State == FragQueued {
		st.Sender.unqueue(f.Ep, f)
	}
}

// numberFragment gives a fragment the next id.
func (ep *Endpoint) numberFragment(f *Fragment) { f.id = ep.FragIDs.Take(ep.Snd.Window()) }

// mayNumber reports whether a further fragment may get an id. The latest fragment id must be less
// than most ahead of the oldest fragment that may be incomplete.
func (ep *Endpoint) mayNumber(most uint32) bool {
	oldest, next := ep.Snd.Window()
	return ep.FragIDs.MayTake(most, oldest, next)
}
