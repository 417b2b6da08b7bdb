package frag

// Chunks returns the number of chunks of at most roomBytes into which a fragment of sizeBytes is
// divided. An empty fragment has 0 chunks. Chunks panics if roomBytes is 0.
func Chunks(sizeBytes, roomBytes uint32) uint32 {
	n := sizeBytes / roomBytes
	if sizeBytes%roomBytes != 0 {
		n++
	}
	return n
}

// grid is the division of a fragment into chunks. The field "first" of a grid is the length of the
// first chunk. The field "chunk" of a grid is the length of each later chunk, except that the last
// chunk can be shorter. Both lengths are never 0.
type grid struct{ first, chunk uint32 }

func gridOf(h *Header) grid { return grid{uint32(h.FirstBytes), uint32(h.ChunkBytes)} }

func (g grid) index(offset uint32) uint32 {
	if offset < g.first {
		return 0
	}
	return 1 + (offset-g.first)/g.chunk
}

// The method "size" returns the length of the chunk with the given index, which must not be the
// last chunk.
func (g grid) size(index uint32) uint32 {
	if index == 0 {
		return g.first
	}
	return g.chunk
}

// start returns the offset of the chunk with the given index in its fragment. The result of the
// method "start" has 64 bits, because for an index beyond the last chunk the offset can be larger
// than 32 bits allow.
func (g grid) start(index uint32) uint64 {
	if index == 0 {
		return 0
	}
	return uint64(g.first) + uint64(index-1)*uint64(g.chunk)
}

func (g grid) chunks(sizeBytes uint32) uint32 { return 1 + Chunks(sizeBytes-g.first, g.chunk) }

// locate returns the index of the chunk of n bytes that begins at the given offset of a fragment,
// and reports whether there is such a chunk.
func (g grid) locate(sizeBytes, offset uint32, n int) (chunk uint32, ok bool) {
	if g.first == 0 || g.chunk == 0 || g.first > sizeBytes || offset >= sizeBytes {
		return 0, false
	}
	chunk = g.index(offset)
	return chunk, uint64(offset) == g.start(chunk) &&
		n == int(min(g.size(chunk), sizeBytes-offset))
}
