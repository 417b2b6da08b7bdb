package btl

import "gobtl/fabric"

// vector is the payload of a fragment in several pieces.
type vector struct {
	pieces [PiecesMax]vectorPiece
	count  int
}

// vectorPiece is one piece of a vector: some bytes of the fragment, from at on.
type vectorPiece struct {
	mem []byte
	at  uint32
	source
}

// add adds a piece, unless it is empty.
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

// holding is the piece that contains byte at of the fragment.
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

// copyTo copies the fragment's bytes into dst, from byte from on, until dst is full or they end.
func (v *vector) copyTo(dst []byte, from uint32) (copied int) {
	for i := range v.all() {
		p := &v.pieces[i]
		if at := from + uint32(copied); at >= p.at && at-p.at < uint32(len(p.mem)) {
			copied += copy(dst[copied:], p.mem[at-p.at:])
		}
	}
	return copied
}

// copyPayload copies a fragment's payload into dst, from byte from on, until dst is full or the
// payload ends.
func (f *Fragment) copyPayload(dst []byte, from uint32) int {
	if f.vec != nil {
		return f.vec.copyTo(dst, from)
	}
	return copy(dst, f.mem[from:])
}

// gathered is the part of a fragment's payload that the fabric gathers for one of its packets.
func (f *Fragment) gathered(at uint32, sizeBytes uint16) []byte {
	if f.vec == nil {
		return f.mem[at:][:sizeBytes]
	}
	p := f.vec.holding(at)
	return p.mem[at-p.at:][:sizeBytes]
}

// sourceAt is the registered region that contains byte at of a fragment, and the offset in it.
func (f *Fragment) sourceAt(at uint32) (fabric.Region, uint64) {
	if f.vec == nil {
		return f.gather, f.gatherOff + uint64(at)
	}
	p := f.vec.holding(at)
	return p.gather, p.gatherOff + uint64(at-p.at)
}

// takeVector takes an idle vector, or makes one.
func (d *descriptors) takeVector() *vector {
	n := len(d.vectors)
	if n == 0 {
		return new(vector)
	}
	v := d.vectors[n-1]
	d.vectors = d.vectors[:n-1]
	return v
}

// giveVector takes a vector back.
func (d *descriptors) giveVector(v *vector) {
	clear(v.all())
	v.count = 0
	d.vectors = append(d.vectors, v)
}
