package payload

import "gobtl/fabric"

// PiecesMax is the maximum number of separate memory blocks (pieces) in a payload.
const PiecesMax = 8

// Payload is the memory that contains the bytes of a fragment. A zero Payload is empty.
type Payload struct {
	Bytes []byte // the bytes, or nil if they are in several memory blocks
	source
	pieces *pieces
}

// Hold makes b the bytes of the payload.
func (p *Payload) Hold(b []byte) { p.Bytes = b }

// source is the registered memory (memory region) from which the fabric gathers bytes.
type source struct {
	region fabric.Region // 0: the bytes are copied
	off    uint64        // offset of the bytes in the region
	own    bool          // the region is registered only for this fragment
}

// The type "pieces" describes a payload that consists of several memory blocks.
type pieces struct {
	list  [PiecesMax]piece
	count int
}

// The type "piece" is one of the memory blocks of a payload. The field "at" of a piece is the
// payload offset of the first byte of this memory block.
type piece struct {
	mem []byte
	at  uint32
	source
}

func (v *pieces) all() []piece { return v.list[:v.count] }

// add appends a memory block to the payload unless the block is empty. The argument "at" of the
// method "add" is the payload offset of the block's first byte. The method "add" returns the
// payload offset of the next memory block.
func (v *pieces) add(mem []byte, at uint32) uint32 {
	if len(mem) == 0 {
		return at
	}
	v.list[v.count] = piece{mem: mem, at: at}
	v.count++
	return at + uint32(len(mem))
}

// The method "holding" returns the memory block (piece) that contains the payload's byte at the
// given offset.
func (v *pieces) holding(at uint32) *piece {
	p := &v.list[0]
	for i := range v.all() {
		if v.list[i].at > at {
			break
		}
		p = &v.list[i]
	}
	return p
}

func (v *pieces) copyTo(dst []byte, from uint32) (copied int) {
	for i := range v.all() {
		p := &v.list[i]
		if at := from + uint32(copied); at >= p.at && at-p.at < uint32(len(p.mem)) {
			copied += copy(dst[copied:], p.mem[at-p.at:])
		}
	}
	return copied
}

// Scattered reports whether the payload consists of several memory blocks.
func (p *Payload) Scattered() bool { return p.pieces != nil }

// Registered reports whether memory of the payload is registered only for the send of this
// fragment.
func (p *Payload) Registered() bool { return p.own }

// CopyTo copies bytes of the payload, from the payload offset "from" on, to the slice "dst". CopyTo
// returns the number of copied bytes.
func (p *Payload) CopyTo(dst []byte, from uint32) int {
	if p.pieces != nil {
		return p.pieces.copyTo(dst, from)
	}
	return copy(dst, p.Bytes[from:])
}

// InRegion reports whether the fabric gathers all bytes of the payload from one registered region.
func (p *Payload) InRegion() bool { return p.region != 0 && p.pieces == nil }

// Load puts the next len(dst) bytes of the payload into a packet, at the slice "dst". The argument
// "from" of Load is the payload offset of the first byte that Load puts into the packet. If the
// fabric gathers some of the bytes, Load copies only the bytes before the gathered part. Load
// returns the payload offset and the size of the gathered part. The gathered part is the end of the
// packet.
func (p *Payload) Load(dst []byte, from uint32) (gatherAt uint32, gatherBytes uint16) {
	if p.pieces == nil {
		if p.region == 0 {
			copy(dst, p.Bytes[from:])
			return 0, 0
		}
		return from, uint16(len(dst))
	}
	end := from + uint32(len(dst))
	last := p.pieces.holding(end - 1)
	if last.region == 0 {
		p.pieces.copyTo(dst, from)
		return 0, 0
	}
	at := max(last.at, from)
	p.pieces.copyTo(dst[:at-from], from)
	return at, uint16(end - at)
}

// Gathered returns the bytes that the fabric gathers for one packet, where the arguments of
// Gathered are the results of Load.
func (p *Payload) Gathered(at uint32, sizeBytes uint16) []byte {
	if p.pieces == nil {
		return p.Bytes[at:][:sizeBytes]
	}
	piece := p.pieces.holding(at)
	return piece.mem[at-piece.at:][:sizeBytes]
}

// Source returns the registered region that contains the payload's byte at the given offset, and
// the offset of this byte in the region.
func (p *Payload) Source(at uint32) (fabric.Region, uint64) {
	if p.pieces == nil {
		return p.region, p.off + uint64(at)
	}
	piece := p.pieces.holding(at)
	return piece.region, piece.off + uint64(at-piece.at)
}
