package frag

// Followers are the headers of the chunks behind one chunk of a fragment that are of its size, in
// packets with consecutive numbers and without an ACK: each differs from the one before by its two
// numbers and its offset only. So most headers of a stream are written, and recognized, as a few
// words, and neither encoded nor decoded.
type Followers struct {
	words [HeaderBytesMax / 8]uint64 // the next header as Encode writes it
	step  uint64                     // payload bytes of each
	left  uint32                     // how many the fragment has
	put   bool
	op    bool
}

// Words of a header that differ from one to the next: the packet number is the upper half of the
// first of them, the sequence number the lower half of the second, whose upper half is zero, the
// offset of a chunk the lower half of the third, that of a put the whole of the last.
const (
	wordNumber = 1
	wordSeq    = 2
	wordOffset = 5
	wordPut    = 7
	wordOp     = 8
	oneNumber  = 1 << 32
)

// After makes f the headers that follow h, which is a chunk's and complete. There
// are none if the others are not of its size.
func (f *Followers) After(h *Header) {
	var b [HeaderBytesMax]byte
	next := *h
	next.Flags &^= FlagAck | FlagDup
	next.Seq++
	next.Number++
	next.OffsetBytes += uint32(h.PayloadLen)
	next.PutOffset += uint64(h.PayloadLen)
	next.Encode(b[:])
	for i := range f.words {
		f.words[i] = le.Uint64(b[8*i:])
	}
	f.step, f.put = uint64(h.PayloadLen), h.Flags&FlagPut != 0
	f.op = h.Flags&FlagOp != 0
	f.left = (h.SizeBytes-h.OffsetBytes)/uint32(h.PayloadLen) - 1
	if !f.put && h.PayloadLen != h.ChunkBytes {
		f.left = 0
	}
	if rest := uint64(h.SizeBytes - h.OffsetBytes); f.put && h.PutOffset+rest < rest {
		f.left = 0 // some of them would be beyond what an offset can be
	}
}

// Write writes the next header to b, which has room for it. The fragment must have that chunk.
func (f *Followers) Write(b []byte) {
	c := (*[ChunkHeaderBytes]byte)(b) // without a loop, which would cost more than what it does
	le.PutUint64(c[0:], f.words[0])
	le.PutUint64(c[8:], f.words[1])
	le.PutUint64(c[16:], f.words[2])
	le.PutUint64(c[24:], f.words[3])
	le.PutUint64(c[32:], f.words[4])
	le.PutUint64(c[40:], f.words[5])
	if f.put {
		e := (*[putExtraBytes]byte)(b[ChunkHeaderBytes:])
		le.PutUint64(e[0:], f.words[wordPut-1])
		le.PutUint64(e[8:], f.words[wordPut])
		f.words[wordPut] += f.step
		if f.op {
			le.PutUint64(b[ChunkPutHeaderBytes:], f.words[wordOp])
		}
	}
	f.advance()
}

// Match says whether head is the next header: then it passes on to the one behind it. What matches
// is a header that Decode would accept.
func (f *Followers) Match(head []byte) bool {
	if len(head) != f.bytes() || f.left == 0 {
		return false
	}
	c := (*[ChunkHeaderBytes]byte)(head)
	if le.Uint64(c[0:]) != f.words[0] || le.Uint64(c[8:]) != f.words[1] ||
		le.Uint64(c[16:]) != f.words[2] || le.Uint64(c[24:]) != f.words[3] ||
		le.Uint64(c[32:]) != f.words[4] || le.Uint64(c[40:]) != f.words[5] {
		return false
	}
	if f.put {
		if !f.matchPut(head) {
			return false
		}
		f.words[wordPut] += f.step
	}
	f.advance()
	return true
}

// matchPut is Match for what only the header of a put has.
func (f *Followers) matchPut(head []byte) bool {
	e := (*[putExtraBytes]byte)(head[ChunkHeaderBytes:])
	return le.Uint64(e[0:]) == f.words[wordPut-1] && le.Uint64(e[8:]) == f.words[wordPut] &&
		(!f.op || le.Uint64(head[ChunkPutHeaderBytes:]) == f.words[wordOp])
}

// bytes is the length of the headers.
func (f *Followers) bytes() int {
	switch {
	case f.op:
		return HeaderBytesMax
	case f.put:
		return ChunkPutHeaderBytes
	}
	return ChunkHeaderBytes
}

func (f *Followers) advance() {
	f.words[wordNumber] += oneNumber // wraps as numbers do
	f.words[wordSeq] = uint64(uint32(f.words[wordSeq]) + 1)
	f.words[wordOffset] += f.step // within the fragment, so within its half
	f.left--
}
