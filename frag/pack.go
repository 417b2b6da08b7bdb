package frag

// RecordHeaderBytes is the header of a record. A pack is a packet of several fragments, each of
// which is a record of the pack:
//
//	tag u8, flags u8, lengthBytes u16, then so many bytes: the payload
//
// The records of a pack follow each other without padding up to the end of the pack's payload. A
// record with the flag Piece holds a chunk of a fragment instead of a whole fragment. The extra of
// a Chunk, of PieceExtraBytes, then stands before the payload and counts in lengthBytes. Only the
// first and the last record of a pack may be pieces. If the first and the last record are pieces,
// the first record ends its fragment and the last record begins another fragment:
//
//	| end of A | B whole | C whole | beginning of D |
const RecordHeaderBytes = 4

// PieceExtraBytes is the number of header bytes of a piece in addition to RecordHeaderBytes.
const PieceExtraBytes = chunkExtraBytes

// recordTags, recordPiece and recordReserved are masks for the first two bytes of a record, read as
// one number.
const (
	recordTags     = 0x00FF
	recordPiece    = 0x0100
	recordReserved = 0xFE00
)

// PutRecord writes a record with a whole fragment at the start of b, and returns the record's
// length, which is RecordHeaderBytes + len(payload). PutRecord does not check the values that
// Decode would refuse. PutRecord panics if b is too short.
func PutRecord(b []byte, tag uint8, payload []byte) int {
	n := RecordHeaderBytes + len(payload)
	le.PutUint32(b, uint32(tag)|uint32(len(payload))<<16)
	copy(b[RecordHeaderBytes:n:len(b)], payload)
	return n
}

// Piece is the place of a piece in its fragment. The fields of Piece are those of a Chunk in
// Header.
type Piece struct {
	FragID, SizeBytes, OffsetBytes uint32
	FirstBytes, ChunkBytes         uint16
}

// PutPiece writes a piece at the start of b, and returns the piece's length, which is
// RecordHeaderBytes + PieceExtraBytes + len(payload). PutPiece does not check the values that
// Decode would refuse. PutPiece panics if b is too short.
func PutPiece(b []byte, tag uint8, p Piece, payload []byte) int {
	n := RecordHeaderBytes + PieceExtraBytes + len(payload)
	le.PutUint32(b, uint32(tag)|recordPiece|uint32(PieceExtraBytes+len(payload))<<16)
	e := (*[PieceExtraBytes]byte)(b[RecordHeaderBytes:])
	le.PutUint32(e[0:], p.FragID)
	le.PutUint32(e[4:], p.SizeBytes)
	le.PutUint32(e[8:], p.OffsetBytes)
	le.PutUint32(e[12:], uint32(p.FirstBytes)|uint32(p.ChunkBytes)<<16)
	copy(b[RecordHeaderBytes+PieceExtraBytes:n:len(b)], payload)
	return n
}

// readPiece reads the piece at the start of p, and returns the length of the piece's payload. The
// argument p of readPiece is the unread rest of a pack.
func readPiece(p []byte) (piece Piece, payloadBytes int) {
	e := (*[PieceExtraBytes]byte)(p[RecordHeaderBytes:])
	return Piece{
		FragID: le.Uint32(e[0:]), SizeBytes: le.Uint32(e[4:]), OffsetBytes: le.Uint32(e[8:]),
		FirstBytes: le.Uint16(e[12:]), ChunkBytes: le.Uint16(e[14:]),
	}, int(le.Uint16(p[2:])) - PieceExtraBytes
}

// NextRecord splits the first record off the payload of a pack that Decode has accepted, or off the
// rest of such a payload. The argument must not be empty. The results of NextRecord alias the
// payload. If the record is a piece, DecodePiece decodes data.
func NextRecord(payload []byte) (tag uint8, data, rest []byte) {
	n := RecordHeaderBytes + int(le.Uint16(payload[2:]))
	return payload[0], payload[RecordHeaderBytes:n:n], payload[n:]
}

// IsPiece reports whether the first record in the rest of a pack is a piece.
func IsPiece(payload []byte) bool { return payload[1]&(recordPiece>>8) != 0 }

// DecodePiece sets h to the header that the piece would have as a Chunk, and returns the piece's
// payload, which aliases data. The fields of h that belong to the whole packet are unchanged.
func DecodePiece(tag uint8, data []byte, h *Header) (payload []byte) {
	payload = data[PieceExtraBytes:]
	e := (*[PieceExtraBytes]byte)(data)
	h.Kind, h.Flags, h.Tag, h.PayloadLen = KindChunk, 0, tag, uint16(len(payload))
	h.FragID, h.SizeBytes, h.OffsetBytes = le.Uint32(e[0:]), le.Uint32(e[4:]), le.Uint32(e[8:])
	h.FirstBytes, h.ChunkBytes = le.Uint16(e[12:]), le.Uint16(e[14:])
	return payload
}

// checkRecords checks that p consists of one or more records. Most packs have only whole fragments,
// whose records can be wrong only in length and tag.
func checkRecords(p []byte) error {
	at := 0
	for at+RecordHeaderBytes <= len(p) {
		head := le.Uint32(p[at : at+RecordHeaderBytes])
		next := at + RecordHeaderBytes + int(head>>16)
		// The bits above the tag say whether the record is a piece.
		if uint16(head) > TagUserMax || next > len(p) {
			break
		}
		if at = next; at == len(p) {
			return nil
		}
	}
	return checkRecordsFrom(p, p[at:])
}

// checkRecordsFrom checks the rest p of a pack, whose records may be pieces.
func checkRecordsFrom(whole, p []byte) error {
	for {
		if len(p) < RecordHeaderBytes {
			return ErrLength
		}
		head := le.Uint32(p)
		if head&recordReserved != 0 {
			return ErrReserved
		}
		if head&recordTags > TagUserMax {
			return ErrTag
		}
		n := RecordHeaderBytes + int(head>>16)
		if n > len(p) {
			return ErrLength
		}
		if head&recordPiece != 0 {
			if err := checkPiece(whole, p, n); err != nil {
				return err
			}
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
	}
}

// checkPiece checks the piece of n bytes at the start of p, which is the rest of the payload whole.
func checkPiece(whole, p []byte, n int) error {
	if n <= RecordHeaderBytes+PieceExtraBytes {
		return ErrLength
	}
	if len(p) != len(whole) && len(p) != n { // neither the first record nor the last
		return ErrFlags
	}
	piece, payloadBytes := readPiece(p)
	if !piece.inFragment(payloadBytes) {
		return ErrBounds
	}
	if len(p) == len(whole) || !IsPiece(whole) {
		return nil
	}
	end, endBytes := readPiece(whole)
	if end.OffsetBytes+uint32(endBytes) != end.SizeBytes || piece.OffsetBytes != 0 ||
		piece.FragID == end.FragID {
		return ErrBounds
	}
	return nil
}

// inFragment reports whether a piece with payloadBytes lies on its fragment's grid.
func (p *Piece) inFragment(payloadBytes int) bool {
	g := grid{uint32(p.FirstBytes), uint32(p.ChunkBytes)}
	if g.chunk < ChunkBytesMin {
		return false
	}
	_, ok := g.locate(p.SizeBytes, p.OffsetBytes, payloadBytes)
	return ok
}
