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

// Split is a cursor over a fragment that is cut into chunks. It is a small value: a copy keeps the
// place, so that a caller whose packet could not be posted returns to it.
type Split struct {
	sizeBytes, roomBytes, offsetBytes uint32
}

// NewSplit returns a cursor at the start of a fragment of sizeBytes, 0 to 2^32-1, for chunks of
// roomBytes: the packet's MTU less its HeaderBytes. It panics if roomBytes is 0.
func NewSplit(sizeBytes, roomBytes uint32) Split {
	if roomBytes == 0 {
		panic("frag: no room for payload in a chunk")
	}
	return Split{sizeBytes: sizeBytes, roomBytes: roomBytes}
}

// Next returns the offset and the length of the next chunk, and whether it is the last one, and
// moves past it. Behind the last chunk, and for an empty fragment, it returns n = 0 and last =
// true.
func (s *Split) Next() (offset, n uint32, last bool) {
	offset = s.offsetBytes
	// The difference cannot wrap, the sum offset+room could.
	n = min(s.roomBytes, s.sizeBytes-offset)
	s.offsetBytes = offset + n
	return offset, n, s.offsetBytes == s.sizeBytes
}

// Offset returns where the next chunk starts; the fragment's size when all are taken.
func (s *Split) Offset() uint32 { return s.offsetBytes }

// Done says whether all chunks are taken.
func (s *Split) Done() bool { return s.offsetBytes == s.sizeBytes }
