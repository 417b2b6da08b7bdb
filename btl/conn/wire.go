package conn

import "encoding/binary"

// The type "kind" is the kind of a message.
type kind uint8

const (
	kindOpen kind = iota + 1
	kindAccept
	kindRefuse
	kindData
	kindCredit
	kindFin
	kindStop
	kindReset
)

// The type "status" is the reason with which a peer refuses a Conn.
type status uint16

const (
	statusService status = iota + 1
	statusBacklog
	statusConns
)

const (
	headBytes    = 16
	serviceBytes = 255 // at most
)

// The type "head" is the header of a message; doc.go describes the bytes of the header.
type head struct {
	kind   kind
	mine   bool // the sender of the message has chosen the id
	status status
	id     uint32
	value  uint64
}

func (h *head) put(b []byte) {
	b[0], b[1] = byte(h.kind), 0
	if h.mine {
		b[1] = 1
	}
	binary.LittleEndian.PutUint16(b[2:], uint16(h.status))
	binary.LittleEndian.PutUint32(b[4:], h.id)
	binary.LittleEndian.PutUint64(b[8:], h.value)
}

// The method "read" parses the header of a message, and returns the bytes after the header. The
// result "ok" of the method "read" is false for a header that package conn never sends, and true
// otherwise.
func (h *head) read(b []byte) (rest []byte, ok bool) {
	if len(b) < headBytes || b[1] > 1 {
		return nil, false
	}
	*h = head{
		kind: kind(b[0]), mine: b[1] == 1, status: status(binary.LittleEndian.Uint16(b[2:])),
		id: binary.LittleEndian.Uint32(b[4:]), value: binary.LittleEndian.Uint64(b[8:]),
	}
	rest = b[headBytes:]
	switch h.kind {
	case kindOpen:
		ok = h.mine && h.status == 0 && len(rest) <= serviceBytes
	case kindAccept:
		ok = !h.mine && h.status == 0 && len(rest) == 0
	case kindRefuse:
		ok = !h.mine && h.status >= statusService && h.status <= statusConns && h.value == 0 &&
			len(rest) == 0
	case kindData:
		ok = h.status == 0 && len(rest) > 0 && h.value+uint64(len(rest)) > h.value
	case kindCredit, kindFin:
		ok = h.status == 0 && len(rest) == 0
	case kindStop, kindReset:
		ok = h.status == 0 && h.value == 0 && len(rest) == 0
	}
	return rest, ok
}
