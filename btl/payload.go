package btl

import "gobtl/fabric"

// vector is a fragment's payload that lies in several segments of memory.
type vector struct {
	pieces [PiecesMax]vectorPiece
	count  int
}

// vectorPiece is one memory segment of a vector. The field at of a vectorPiece is the
// offset of the segment's first byte in the fragment.
type vectorPiece struct {
	mem []byte
	at  uint32
	source
}

// add appends a non-empty memory segment at the fragment's offset at, and returns the offset
// behind the segment.
func (v *vector) add(mem []byte, at uint32) uint32 {
	if len(mem) == 0 {
		return at
	}
	v.pieces[v.count] = vectorPiece{mem: mem, at: at}
	v.count++
	return at + uint32(len(mem))
}

// all returns the pieces.
func (v *vector) all() []vectorPiece { return v.pieces[:v.count] }

// holding returns the segment that contains the fragment's byte at offset at.
func (v *vector) holding(at uint32) *vectorPiece {
	p := &v.pieces[0]
	for i := range v.all() {
		if v.pieces[i].at > at {
			break
		}
		p = &v.pieces[i]
	}
	return p
}

func (v *vector) copyTo(dst []byte, from uint32) (copied int) {
	for i := range v.all() {
		p := &v.pieces[i]
		if at := from + uint32(copied); at >= p.at && at-p.at < uint32(len(p.mem)) {
			copied += copy(dst[copied:], p.mem[at-p.at:])
		}
	}
	return copied
}

func (f *Fragment) copyPayload(dst []byte, from uint32) int {
	if f.vec != nil {
		return f.vec.copyTo(dst, from)
	}
	return copy(dst, f.mem[from:])
}

// gathered returns the part of a fragment's payload that the fabric gathers for one packet, which
// has sizeBytes bytes and begins at offset at.
func (f *Fragment) gathered(at uint32, sizeBytes uint16) []byte {
	if f.vec == nil {
		return f.mem[at:][:sizeBytes]
	}
	p := f.vec.holding(at)
	return p.mem[at-p.at:][:sizeBytes]
}

// sourceAt returns the registered memory region that contains the fragment's byte at offset at, and
// the byte's offset in the region.
func (f *Fragment) sourceAt(at uint32) (fabric.Region, uint64) {
	if f.vec == nil {
		return f.gather, f.gatherOff + uint64(at)
	}
	p := f.vec.holding(at)
	return p.gather, p.gatherOff + uint64(at-p.at)
}

func (d *descriptors) takeVector() *vector {
	n := len(d.vectors)
	if n == 0 {
		return new(vector)
	}
	v := d.vectors[n-1]
	d.vectors = d.vectors[:n-1]
	return v
}

// giveVector returns a vector to the pool.
func (d *descriptors) giveVector(v *vector) {
	clear(v.all())
	v.count = 0
	d.vectors = append(d.vectors, v)
}
