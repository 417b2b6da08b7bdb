package frag

// Followers computes the headers of the chunks that follow a given chunk of the same fragment and
// have the same size. The packets of the following chunks must have consecutive packet numbers and
// sequence numbers, and no ACK. The headers of two consecutive chunks then differ only in the
// packet number, the sequence number and the offset.
type Followers struct {
	words [HeaderBytesMax / 8]uint64 // the next header, as encoded by Encode
	step  uint64                     // payload bytes of each packet
	left  uint32                     // headers left in the fragment
	put   bool
	op    bool
}

// The constants below are the indices of the words in which the headers of two adjacent chunks
// differ. The packet number is the upper half of wordNumber. The sequence number of a packet is
// the lower half of wordSeq, whose upper half is zero. The offset of a chunk is the lower half of
// wordOffset. The offset of a put takes the whole of wordPut.
const (
	wordNumber = 1
	wordSeq    = 2
	wordOffset = 5
	wordPut    = 7
	wordOp     = 8
	oneNumber  = 1 << 32
)

// After sets f to the headers that follow h, which must be a complete header of a chunk. If the
// next chunk has another size, f is empty.
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
		f.left = 0 // the end of the fragment would overflow the put's offset
	}
}

// Write writes the header of the next chunk to b, which must be long enough.
func (f *Followers) Write(b []byte) {
	c := (*[ChunkHeaderBytes]byte)(b) // a loop would cost more than the copies
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

// Match reports whether head is the header of the next chunk. If it is, Match advances f to the
// chunk after the next.
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

func (f *Followers) matchPut(head []byte) bool {
	e := (*[putExtraBytes]byte)(head[ChunkHeaderBytes:])
	return le.Uint64(e[0:]) == f.words[wordPut-1] && le.Uint64(e[8:]) == f.words[wordPut] &&
		(!f.op || le.Uint64(head[ChunkPutHeaderBytes:]) == f.words[wordOp])
}

// bytes is the length of each header.
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
	f.words[wordNumber] += oneNumber // the number wraps at 32 bits
	f.words[wordSeq] = uint64(uint32(f.words[wordSeq]) + 1)
	f.words[wordOffset] += f.step // the offset stays within the fragment, and within 32 bits
	f.left--
}
