package frag

import "gobtl/internal/seq"

// SetNumber replaces the packet number in the encoded packet b, for a retransmission.
func SetNumber(b []byte, number uint32) { le.PutUint32(b[12:16], number) }

// SetAck sets the acknowledgement in the encoded packet b, so that a retransmission carries the
// latest acknowledgement. The argument "dup" of SetAck says whether SetAck sets FlagDup. The kind
// of the packet b must be one that permits FlagAck.
func SetAck(b []byte, ack seq.Num, credit, creditBytes uint16, dup bool) {
	c := (*[FragHeaderBytes]byte)(b)
	c[2] = c[2]&^byte(FlagDup|FlagLater) | byte(FlagAck)
	if dup {
		c[2] |= byte(FlagDup)
	}
	le.PutUint32(c[20:], uint32(ack))
	le.PutUint16(c[26:], credit)
	le.PutUint16(c[28:], creditBytes)
}

// ClearAck removes the acknowledgement from the encoded packet b.
func ClearAck(b []byte) {
	c := (*[FragHeaderBytes]byte)(b)
	c[2] &^= byte(FlagAck | FlagDup | FlagLater)
	le.PutUint32(c[20:], 0)
	le.PutUint32(c[26:], 0)
}

// CarriesAck reports whether the encoded packet b has FlagAck.
func CarriesAck(b []byte) bool { return Flags(b[2])&FlagAck != 0 }

// PutFrag writes the header of a Frag without flags at the start of b, and returns the length of
// the header.
func PutFrag(b []byte, conn uint64, number uint32, tag uint8, payloadLen int) int {
	c := (*[FragHeaderBytes]byte)(b)
	le.PutUint32(c[0:], Magic|(Version<<4|uint32(KindFrag))<<8|uint32(tag)<<24)
	le.PutUint64(c[4:], conn)
	le.PutUint32(c[12:], number)
	le.PutUint64(c[16:], 0)
	le.PutUint64(c[24:], uint64(uint16(payloadLen)))
	return FragHeaderBytes
}

// SeqOf returns the sequence number of the encoded packet b, which must be at least FragHeaderBytes
// long.
func SeqOf(b []byte) seq.Num { return seq.Num(le.Uint32(b[16:20])) }

// NumberOf returns the packet number of the encoded packet b, which must be at least
// FragHeaderBytes long.
func NumberOf(b []byte) uint32 { return le.Uint32(b[12:16]) }

// ConnOf returns the connection tag of a datagram, without checking whether the datagram is a valid
// packet. If the datagram is too short, ConnOf returns 0.
func ConnOf(b []byte) uint64 {
	if len(b) < FragHeaderBytes {
		return 0
	}
	return le.Uint64(b[4:])
}
