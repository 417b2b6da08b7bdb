package frag

// Followers computes the headers of the chunks that follow a given chunk of a fragment and have the
// same size as this chunk. Followers can be used only if the packets of the chunks have consecutive
// packet numbers and consecutive sequence numbers, and carry no ACK. The headers of consecutive
// chunks differ only in the packet number, the sequence number and the offset.
type Followers struct {
	words [HeaderBytesMax / 8]uint64 // the next header, as encoded by Encode
	step  uint64                     // payload bytes of each packet
	left  uint32                     // headers left in the fragment
	put   bool
	op    bool
}

// The headers of two consecutive chunks differ only in the 64-bit words whose indices are the
// constants below. The packet number is in the upper half of the header word with the index
// wordNumber. The sequence number is in the lower half of the header word with the index wordSeq,
// and the upper half of this word is zero. The offset of a chunk is in the lower half of the header
// word with the index wordOffset. The offset of a put takes the whole header word with the index
// wordPut.
const (
	wordNumber = 1
	wordSeq    = 2
	wordOffset = 5
	wordPut    = 7
	wordOp     = 8
	oneNumber  = 1 << 32
)

// After sets the Followers f to the headers of the chunks that follow the chunk with the header h.
// All fields of the header h must be set. If the chunk that follows has a different size, After
// makes f empty.
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

// Write writes the header of the next chunk to b, which must have room for the header.
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

func (f *Followers) advance() {
	f.words[wordNumber] += oneNumber // the number wraps at 32 bits
	f.words[wordSeq] = uint64(uint32(f.words[wordSeq]) + 1)
	f.words[wordOffset] += f.step // the offset stays within the fragment, and within 32 bits
	f.left--
}
