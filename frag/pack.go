package frag

// RecordHeaderBytes is what a fragment takes in a pack beside its payload. A record is
//
//	tag u8, zero u8, lengthBytes u16, then the payload
//
// and the records of a pack follow each other without padding up to the end of its payload.
const RecordHeaderBytes = 4

// recordTags and recordReserved tell what the first two bytes of a record hold when they are read
// as one number.
const (
	recordTags     = 0x00FF
	recordReserved = 0xFF00
)

// PutRecord writes a record, a whole fragment, at the start of b and returns its length,
// RecordHeaderBytes + len(payload). It does not check what Decode would refuse; it panics if b is
// too short.
func PutRecord(b []byte, tag uint8, payload []byte) int {
	n := RecordHeaderBytes + len(payload)
	le.PutUint32(b, uint32(tag)|uint32(len(payload))<<16)
	copy(b[RecordHeaderBytes:n:len(b)], payload)
	return n
}

// NextRecord splits the first record off the payload of a pack that Decode has accepted, or off
// the rest of one, which must not be empty. What it returns aliases the payload.
func NextRecord(payload []byte) (tag uint8, data, rest []byte) {
	n := RecordHeaderBytes + int(le.Uint16(payload[2:]))
	return payload[0], payload[RecordHeaderBytes:n:n], payload[n:]
}

// checkRecords checks that p consists of records, of one at least.
func checkRecords(p []byte) error {
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
		if p = p[n:]; len(p) == 0 {
			return nil
		}
	}
}
