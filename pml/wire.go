package pml

import (
	"encoding/binary"
	"math"
)

type kind uint8

const (
	kindEager kind = iota + 1
	kindAnnounce
	kindClear
	kindFin
	kindMatched
	kindCredit
	kindActive
	kindActiveAnnounce
	kindData
)

const (
	flagSync  = 1
	flagReady = 2
	// In a message of the kind "clear", flagPackets asks the sender to use packets instead of puts.
	flagPackets = 4
)

// The constants below are the sizes of message headers, in bytes.
const (
	headBytes    = 16
	headMostSize = 40
)

// The type "head" is the header of a protocol message. The file doc.go describes the header fields
// of each kind of message.
type head struct {
	kind    kind
	flags   uint8
	id      uint16 // id of an active message
	number  uint32
	a       uint64
	b, c, d uint64
}

// The method "bytes" returns the size of the header in bytes.
func (h *head) bytes() int {
	switch h.kind {
	case kindEager:
		if h.flags&flagSync != 0 {
			return headBytes + 8
		}
	case kindAnnounce, kindActiveAnnounce, kindData:
		return headBytes + 16
	case kindClear:
		return headBytes + 24
	case kindFin, kindMatched, kindCredit, kindActive:
	}
	return headBytes
}

// The method "put" writes the header into the slice b, which must have at least h.bytes() bytes.
func (h *head) put(b []byte) {
	b[0], b[1] = byte(h.kind), h.flags
	binary.LittleEndian.PutUint16(b[2:], h.id)
	binary.LittleEndian.PutUint32(b[4:], h.number)
	binary.LittleEndian.PutUint64(b[8:], h.a)
	if h.bytes() == headBytes {
		return
	}
	for i, v := range [...]uint64{h.b, h.c, h.d} {
		if at := headBytes + 8*i; at < h.bytes() {
			binary.LittleEndian.PutUint64(b[at:], v)
		}
	}
}

// putEager writes the header of an eager message without flags.
func putEager(b []byte, number uint32, tag uint64) {
	binary.LittleEndian.PutUint32(b, uint32(kindEager))
	binary.LittleEndian.PutUint32(b[4:], number)
	binary.LittleEndian.PutUint64(b[8:], tag)
}

// readEager decodes the header of an eager message without flags. The result "ok" of readEager
// reports whether the header belongs to an eager message without flags.
func readEager(b []byte) (number uint32, tag uint64, ok bool) {
	if len(b) < headBytes || binary.LittleEndian.Uint32(b) != uint32(kindEager) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:]), true
}

func (h *head) active() bool { return h.kind == kindActive || h.kind == kindActiveAnnounce }

func (h *head) flagged() bool {
	switch h.kind {
	case kindEager, kindAnnounce:
		return h.flags <= flagReady
	case kindClear:
		return h.flags&^flagPackets == 0
	case kindFin, kindMatched, kindCredit, kindActive, kindActiveAnnounce, kindData:
	}
	return h.flags == 0
}

func (h *head) fits(rest uint64) bool {
	switch h.kind {
	case kindEager:
		return true
	case kindData:
		return rest > 0
	case kindActive:
		return h.a <= rest
	case kindActiveAnnounce:
		return h.a == rest
	case kindAnnounce, kindClear, kindFin, kindMatched, kindCredit:
	}
	return rest == 0
}

// The method "read" decodes a header and returns the bytes after the header. The result "ok" of the
// method "read" is false if the header is invalid, which means that the method "put" never writes
// such a header.
func (h *head) read(b []byte) (rest []byte, ok bool) {
	if len(b) < headBytes {
		return nil, false
	}
	*h = head{
		kind: kind(b[0]), flags: b[1], id: binary.LittleEndian.Uint16(b[2:]),
		number: binary.LittleEndian.Uint32(b[4:]), a: binary.LittleEndian.Uint64(b[8:]),
	}
	if h.kind < kindEager || h.kind > kindData || !h.flagged() || h.id != 0 && !h.active() ||
		len(b) < h.bytes() || !h.fits(uint64(len(b)-h.bytes())) {
		return nil, false
	}
	if h.bytes() == headBytes {
		return b[headBytes:], true
	}
	for i, v := range [...]*uint64{&h.b, &h.c, &h.d} {
		if at := headBytes + 8*i; at < h.bytes() {
			*v = binary.LittleEndian.Uint64(b[at:])
		}
	}
	announces := h.kind == kindAnnounce || h.kind == kindActiveAnnounce
	return b[h.bytes():], !announces || h.c <= math.MaxInt64 // no size is more
}
