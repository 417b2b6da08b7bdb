package offload

import (
	"encoding/binary"
	"math/bits"
)

var be = binary.BigEndian

// The function "sum" adds the 16-bit words of b, in network order, to s. The result of "sum" is an
// Internet checksum that is not reduced to 16 bits yet. If the length of b is odd, the last byte of
// b counts as the upper half of a word.
func sum(b []byte, s uint64) uint64 {
	var acc, c uint64
	for len(b) >= 64 {
		acc, c = bits.Add64(acc, binary.NativeEndian.Uint64(b), 0)
		acc, c = bits.Add64(acc, binary.NativeEndian.Uint64(b[8:]), c)
		acc, c = bits.Add64(acc, binary.NativeEndian.Uint64(b[16:]), c)
		acc, c = bits.Add64(acc, binary.NativeEndian.Uint64(b[24:]), c)
		acc, c = bits.Add64(acc, binary.NativeEndian.Uint64(b[32:]), c)
		acc, c = bits.Add64(acc, binary.NativeEndian.Uint64(b[40:]), c)
		acc, c = bits.Add64(acc, binary.NativeEndian.Uint64(b[48:]), c)
		acc, c = bits.Add64(acc, binary.NativeEndian.Uint64(b[56:]), c)
		acc += c
		b = b[64:]
	}
	for len(b) >= 8 {
		acc, c = bits.Add64(acc, binary.NativeEndian.Uint64(b), 0)
		acc += c
		b = b[8:]
	}
	if len(b) > 0 {
		var last [8]byte
		copy(last[:], b)
		acc, c = bits.Add64(acc, binary.NativeEndian.Uint64(last[:]), 0)
		acc += c
	}
	folded := fold(acc)
	var two [2]byte
	binary.NativeEndian.PutUint16(two[:], folded)
	return s + uint64(be.Uint16(two[:]))
}

// fold reduces a sum to 16 bits, as the Internet checksum does (RFC 1071).
func fold(s uint64) uint16 {
	for s>>16 != 0 {
		s = s&0xFFFF + s>>16
	}
	return uint16(s)
}

// pseudo returns the sum of the words in the TCP or UDP pseudo header, which consists of the
// addresses, the protocol and the length.
func pseudo(addrs []byte, proto uint8, sizeBytes int) uint64 {
	return sum(addrs, uint64(proto)+uint64(sizeBytes))
}
