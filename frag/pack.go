package frag

// RecordHeaderBytes is the length of the header of a record in a Pack. A Pack is a packet with
// several fragments. Each fragment in a Pack is a record with the following layout:
//
//	| tag u8 | flags u8 | lengthBytes u16 | payload of lengthBytes |
//	|========|==========|=================|========================|
//
// The records of a Pack follow each other without padding up to the end of the payload. A record
// with the flag Piece (bit 0 of its flags) contains a chunk of a large fragment instead of a whole
// fragment. A record with a chunk has a second header of PieceExtraBytes before the payload, which
// counts as a part of the record's lengthBytes. Only the first record and the last record of a Pack
// can contain chunks. If both the first and the last record contain a chunk, the first record is
// the end of one fragment, and the last record is the beginning of a second fragment.
//
//	| end of A | B whole | C whole | beginning of D |
const RecordHeaderBytes = 4

// PieceExtraBytes is the length of the additional header that follows the record header if the
// record is a chunk.
const PieceExtraBytes = chunkExtraBytes

// The constants below are masks for the number that the first two bytes of a record encode in
// little-endian order.
const (
	recordTags     = 0x00FF
	recordPiece    = 0x0100
	recordReserved = 0xFE00
)

// PutRecord writes a record with a whole fragment at the start of b, and returns the length of the
// record, which is RecordHeaderBytes + len(payload). PutRecord does not check the tag and the
// payload's length. PutRecord panics if the slice b is too short.
func PutRecord(b []byte, tag uint8, payload []byte) int {
	n := RecordHeaderBytes + len(payload)
	le.PutUint32(b, uint32(tag)|uint32(len(payload))<<16)
	copy(b[RecordHeaderBytes:n:len(b)], payload)
	return n
}

// Piece describes a chunk that is carried in a record of a Pack. The fields of Piece have the same
// meaning as the fields of Header with the same names.
type Piece struct {
	FragID, SizeBytes, OffsetBytes uint32
	FirstBytes, ChunkBytes         uint16
}

// PutPiece writes a record that is a chunk at the start of b, and returns the length of the record,
// which is RecordHeaderBytes + PieceExtraBytes + len(payload). PutPiece does not check its
// arguments. PutPiece panics if b is too short.
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

// readPiece decodes the record at the start of p, which is a chunk, and returns the chunk's
// description and payload length.
func readPiece(p []byte) (piece Piece, payloadBytes int) {
	e := (*[PieceExtraBytes]byte)(p[RecordHeaderBytes:])
	return Piece{
		FragID: le.Uint32(e[0:]), SizeBytes: le.Uint32(e[4:]), OffsetBytes: le.Uint32(e[8:]),
		FirstBytes: le.Uint16(e[12:]), ChunkBytes: le.Uint16(e[14:]),
	}, int(le.Uint16(p[2:])) - PieceExtraBytes
}

// NextRecord separates the first record of a Pack's payload from the records after it. Decode must
// have accepted the Pack. The first call of NextRecord gets the Pack's payload, and each call after
// it gets the result "rest" of the previous call, until "rest" is empty. The results of NextRecord
// alias the payload. If the record contains a chunk (see IsPiece), the caller must decode the
// result "data" by DecodePiece.
func NextRecord(payload []byte) (tag uint8, data, rest []byte) {
	n := RecordHeaderBytes + int(le.Uint16(payload[2:]))
	return payload[0], payload[RecordHeaderBytes:n:n], payload[n:]
}

// RecordAt reads the header of one record in the payload of a Pack that Decode has accepted. The
// argument "at" of RecordAt is the record's offset in the payload. The result "piece" of RecordAt
// says whether the record contains a chunk (see IsPiece). The result "end" of RecordAt is the
// offset at which the next record begins. The content of a record begins RecordHeaderBytes after
// the start of the record.
func RecordAt(payload []byte, at int) (tag uint8, piece bool, end int) {
	head := le.Uint32(payload[at : at+RecordHeaderBytes])
	return uint8(head), head&recordPiece != 0, at + RecordHeaderBytes + int(head>>16)
}

// IsPiece reports whether the first record of a Pack's payload is a chunk instead of a whole
// fragment.
func IsPiece(payload []byte) bool { return payload[1]&(recordPiece>>8) != 0 }

// DecodePiece decodes a record that is a chunk, writes the chunk's header fields to h, and returns
// the chunk's payload, which aliases data. DecodePiece leaves the header fields of the whole
// packet, such as the sequence number and the ACK, unchanged.
func DecodePiece(tag uint8, data []byte, h *Header) (payload []byte) {
	payload = data[PieceExtraBytes:]
	e := (*[PieceExtraBytes]byte)(data)
	h.Kind, h.Flags, h.Tag, h.PayloadLen = KindChunk, 0, tag, uint16(len(payload))
	h.FragID, h.SizeBytes, h.OffsetBytes = le.Uint32(e[0:]), le.Uint32(e[4:]), le.Uint32(e[8:])
	h.FirstBytes, h.ChunkBytes = le.Uint16(e[12:]), le.Uint16(e[14:])
	return payload
}

func checkRecords(p []byte) error {
	at := 0
	for at+RecordHeaderBytes <= len(p) {
		head := le.Uint32(p[at : at+RecordHeaderBytes])
		next := at + RecordHeaderBytes + int(head>>16)
		if uint16(head) > TagUserMax || next > len(p) {
			break
		}
		if at = next; at == len(p) {
			return nil
		}
	}
	return checkRecordsFrom(p, p[at:])
}

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

// inFragment reports whether the offset and the length (payloadBytes) of a chunk are valid for the
// size of its fragment.
func (p *Piece) inFragment(payloadBytes int) bool {
	g := grid{uint32(p.FirstBytes), uint32(p.ChunkBytes)}
	if g.chunk < ChunkBytesMin {
		return false
	}
	_, ok := g.locate(p.SizeBytes, p.OffsetBytes, payloadBytes)
	return ok
}
