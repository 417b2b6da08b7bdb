package vnic

import (
	"encoding/binary"
	"errors"
)

// The constants below are sizes of the encapsulation, in bytes.
const (
	HeaderBytes  = 20
	TrailerBytes = 5 // ICRC and tail; 0 to 7 bytes of padding come before

	FrameBytesMin = 60    // shorter frames are padded with zeros
	FrameBytesMax = 16351 // limit of the 11 bits of LEN
	// PacketBytesMax is the size of the encapsulated packet whose frame has FrameBytesMax bytes.
	PacketBytesMax = 8 * lenMax
	// OverheadBytesMax is the largest number of bytes by which an encapsulated packet is larger than
	// its frame.
	OverheadBytesMax = HeaderBytes + TrailerBytes + 7
)

// The constants below are the largest values of the header's fields.
const (
	LIDMax  = 1<<24 - 1
	VESWMax = 1<<12 - 1 // 0 means no switch
	SCMax   = 1<<5 - 1
	RCMax   = 1<<3 - 1
)

const (
	lenMax   = 1<<11 - 1 // in quadwords
	l4Type   = 0x78
	h1Base   = 0xC0000000 // L2 type 2 (16B), LT 1 (head flit)
	h1Fixed  = 0xE0000000
	bitBECN  = 1 << 31 // in h0
	bitFECN  = 1 << 28 // in h1
	lid20    = 1<<20 - 1
	padMask  = 7
	tailFlit = 1 << 6 // LT 1 in the last byte: last flit of the packet
	quadword = 8
)

// The following errors are returned by Parse and Append. If Parse or Append returns one of the
// errors from ErrShort to ErrRange, the caller must drop the packet.
var (
	ErrShort     = errors.New("vnic: packet shorter than an empty encapsulation")
	ErrLength    = errors.New("vnic: LEN is not the packet's length")
	ErrL2        = errors.New("vnic: not a 16B head flit")
	ErrL4        = errors.New("vnic: L4 type is not Ethernet encapsulation")
	ErrReserved  = errors.New("vnic: reserved bits are set")
	ErrPad       = errors.New("vnic: wrong padding")
	ErrRunt      = errors.New("vnic: frame shorter than 60 bytes")
	ErrFrameSize = errors.New("vnic: frame longer than 16351 bytes")
	ErrRange     = errors.New("vnic: header value out of range")
)

var le = binary.LittleEndian

// Header is the decoded header of the encapsulation.
type Header struct {
	SLID, DLID uint32 // sender and receiver, up to LIDMax
	VESW       uint16 // the switch, up to VESWMax
	PKey       uint16 // partition
	Entropy    uint16 // frames of different entropy may be reordered
	SC         uint8  // service class, up to SCMax
	RC         uint8  // routing control, up to RCMax
	FECN       bool   // the packet met congestion on its way
	BECN       bool   // congestion on the way from receiver to sender
}

// PadBytes returns the size of the padding after a frame of frameBytes bytes, from 0 to 7.
func PadBytes(frameBytes int) int {
	return -(frameBytes + HeaderBytes + TrailerBytes) & padMask
}

// PacketBytes returns the size of the packet for a frame of 60 bytes or more. The size of the
// packet is a multiple of 8.
func PacketBytes(frameBytes int) int {
	return frameBytes + PadBytes(frameBytes) + HeaderBytes + TrailerBytes
}

// Put writes the header of a packet to b, which must have at least HeaderBytes bytes. The argument
// "packetBytes" of Put is the size of the packet, which must be a multiple of 8 up to
// PacketBytesMax. The fields of the header must be in range (see Validate).
func (h *Header) Put(b []byte, packetBytes int) {
	_ = b[HeaderBytes-1]
	h0 := h.SLID&lid20 | uint32(packetBytes/quadword)<<20
	if h.BECN {
		h0 |= bitBECN
	}
	h1 := h.DLID&lid20 | uint32(h.SC)<<20 | uint32(h.RC)<<25 | h1Base
	if h.FECN {
		h1 |= bitFECN
	}
	le.PutUint32(b, h0)
	le.PutUint32(b[4:], h1)
	le.PutUint32(b[8:], l4Type|h.SLID>>20<<8|h.DLID>>20<<12|uint32(h.PKey)<<16)
	le.PutUint32(b[12:], uint32(h.Entropy))
	le.PutUint32(b[16:], uint32(h.VESW)<<16)
}

// Validate returns an error that wraps ErrRange if a field is out of its range.
func (h *Header) Validate() error {
	if h.SLID > LIDMax || h.DLID > LIDMax || h.VESW > VESWMax || h.SC > SCMax || h.RC > RCMax {
		return ErrRange
	}
	return nil
}

// Seal completes a packet in b, which already contains a frame of frameBytes bytes at offset
// HeaderBytes. Seal writes the header, the padding and the trailer, and returns the whole packet.
// The argument "frameBytes" of Seal is the size of the frame, and must be from 60 to FrameBytesMax.
// The slice b must have PacketBytes(frameBytes) bytes or more. Seal overwrites up to 12 bytes after
// the frame.
func (h *Header) Seal(b []byte, frameBytes int) []byte {
	n := PacketBytes(frameBytes)
	h.Put(b, n)
	end := HeaderBytes + frameBytes
	clear(b[end : n-1])
	b[n-1] = byte(n-end-TrailerBytes) | tailFlit
	return b[:n]
}

// Append appends the packet that encapsulates the frame to b. Append pads a frame of less than 60
// bytes with zeros to 60 bytes, and then pads the packet to a multiple of 8 bytes. The errors of
// Header.Append are ErrFrameSize and ErrRange. With an error, Append returns the unchanged slice b.
func (h *Header) Append(b, frame []byte) ([]byte, error) {
	if len(frame) > FrameBytesMax {
		return b, ErrFrameSize
	}
	if err := h.Validate(); err != nil {
		return b, err
	}
	start := len(b)
	size := max(len(frame), FrameBytesMin)
	b = append(b, make([]byte, PacketBytes(size))...)
	copy(b[start+HeaderBytes:], frame)
	h.Seal(b[start:], size)
	return b, nil
}

// Parse decodes a packet with a frame of 60 bytes or more. The frame that Parse returns is a part
// of b. Parse accepts any values of padding and ICRC, because the checksum of the underlying
// transport protects the whole packet. Parse accepts any value of the bit for the last flit. Parse
// does not check that the number of the switch (VESW) is at most VESWMax. Parse returns an error
// for every other difference from the packets that Append can produce. Parse does not panic for any
// input.
func Parse(b []byte) (h Header, frame []byte, err error) {
	if len(b) < HeaderBytes+TrailerBytes {
		return h, nil, ErrShort
	}
	h0, h1, h2 := le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])
	h3, h4 := le.Uint32(b[12:]), le.Uint32(b[16:])
	switch {
	case h1&h1Fixed != h1Base:
		return h, nil, ErrL2
	case byte(h2) != l4Type:
		return h, nil, ErrL4
	case int(h0>>20&lenMax)*quadword != len(b):
		return h, nil, ErrLength
	case h3>>16 != 0 || h4&0xFFFF != 0:
		return h, nil, ErrReserved
	}
	pad := int(b[len(b)-1] &^ tailFlit)
	size := len(b) - HeaderBytes - TrailerBytes - pad
	if pad > padMask || size < 0 {
		return h, nil, ErrPad
	}
	if size < FrameBytesMin {
		return h, nil, ErrRunt
	}
	h = Header{
		SLID: h0&lid20 | h2>>8&0xF<<20,
		DLID: h1&lid20 | h2>>12&0xF<<20,
		VESW: uint16(h4 >> 16), PKey: uint16(h2 >> 16), Entropy: uint16(h3),
		SC: uint8(h1 >> 20 & SCMax), RC: uint8(h1 >> 25 & RCMax),
		BECN: h0&bitBECN != 0, FECN: h1&bitFECN != 0,
	}
	return h, b[HeaderBytes : HeaderBytes+size : HeaderBytes+size], nil
}

// PacketSize returns the size of the first of several contiguous packets in b. If b is shorter than
// the first packet, or if the length field of the first packet is invalid, PacketSize returns 0.
func PacketSize(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	n := int(le.Uint32(b)>>20&lenMax) * quadword
	if n < HeaderBytes+TrailerBytes || n > len(b) {
		return 0
	}
	return n
}
