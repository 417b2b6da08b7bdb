package frag

// Chunks returns how many chunks of at most roomBytes a fragment of sizeBytes is cut into: 0 for an
// empty one. It panics if roomBytes is 0.
func Chunks(sizeBytes, roomBytes uint32) uint32 {
	n := sizeBytes / roomBytes
	if sizeBytes%roomBytes != 0 {
		n++
	}
	return n
}

// grid says where the chunks of a fragment lie: the first one is as long as first, those behind it
// as long as chunk, but the last one, which is the rest. Neither is 0.
type grid struct{ first, chunk uint32 }

// gridOf is the grid that a chunk's header names.
func gridOf(h *Header) grid { return grid{uint32(h.FirstBytes), uint32(h.ChunkBytes)} }

// index is the number of the chunk that offset lies in.
func (g grid) index(offset uint32) uint32 {
	if offset < g.first {
		return 0
	}
	return 1 + (offset-g.first)/g.chunk
}

// size is the length of a chunk that is not the last one.
func (g grid) size(index uint32) uint32 {
	if index == 0 {
		return g.first
	}
	return g.chunk
}

// start is where a chunk begins, which may be beyond what 32 bits hold if there is no such chunk.
func (g grid) start(index uint32) uint64 {
	if index == 0 {
		return 0
	}
	return uint64(g.first) + uint64(index-1)*uint64(g.chunk)
}

// chunks is the number of chunks of a fragment of sizeBytes, which is not less than first.
func (g grid) chunks(sizeBytes uint32) uint32 { return 1 + Chunks(sizeBytes-g.first, g.chunk) }

// locate checks whether n bytes at an offset are a chunk of a fragment of sizeBytes, and returns
// its index.
func (g grid) locate(sizeBytes, offset uint32, n int) (chunk uint32, ok bool) {
	if g.first == 0 || g.chunk == 0 || g.first > sizeBytes || offset >= sizeBytes {
		return 0, false
	}
	chunk = g.index(offset)
	return chunk, uint64(offset) == g.start(chunk) &&
		n == int(min(g.size(chunk), sizeBytes-offset))
}
