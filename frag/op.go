package frag

// FeatureOps says that the sender of the Hello accepts packets with FlagOp, which are operations on
// its memory.
const FeatureOps uint64 = 1 << 2

// OpCode is the type of a packet with FlagOp, such as a request to read memory.
type OpCode uint8

// Packets with the OpCode OpPart or OpPlaced are puts (packets with FlagPut). Packets with an
// OpCode that is neither OpPart nor OpPlaced are of the kind Frag, without FlagPut.
const (
	// OpPart is a packet with data of a put that has a notice (a completion notification). The notice
	// of a put is a short message that the receiver of the put passes to a handler when all bytes of
	// the put have arrived.
	OpPart OpCode = 1
	// OpNotice carries the notice of a put, a message that the receiver passes to a handler when all
	// bytes of the put have arrived. The tag of an OpNotice selects the handler, and the payload is
	// the length of the put (u32) and the content of the notice.
	OpNotice OpCode = 2
	// OpPlaced is a packet that contains all bytes of a put and the put's notice, which is a message
	// to a handler. The content of the notice is at the end of an OpPlaced's payload, and the header
	// field OpBytes is the length of this content.
	OpPlaced OpCode = 3
	// OpGet is a request to read bytes of a memory region. The payload of an OpGet is an encoded Get,
	// which is GetBytes long.
	OpGet OpCode = 4
	// OpAtomic is a request to change a number in a memory region. The payload of an OpAtomic is an
	// encoded Atomic, which is AtomicBytes long.
	OpAtomic OpCode = 5
	// OpResult is the answer to an OpAtomic with Fetch. The payload of an OpResult is the value of the
	// number before the change, in 8 bytes.
	OpResult OpCode = 6
	// OpFailed is the answer to an OpGet whose bytes cannot be sent, for example because the memory
	// region no longer exists. The payload of an OpFailed is the reason, which is one of the Nack
	// codes in one byte.
	OpFailed OpCode = 7
)

// The constants below are payload sizes, in bytes, of packets with an OpCode.
const (
	NoticeBytesMax  = 64 // longest content of a notice
	NoticeHeadBytes = 4  // the header of an OpNotice, before the content
	GetBytes        = 32
	AtomicBytes     = 40
	ResultBytes     = 8
	FailedBytes     = 1
)

// For each OpCode, the fields "least" and "most" of opPayload are the smallest and the largest
// payload length. The fields "put" and "tag" of opPayload say whether packets with the OpCode have
// FlagPut, and whether they have a handler tag.
var opPayload = [...]struct {
	least, most uint16
	put, tag    bool
}{
	OpPart:   {0, PayloadBytesMax, true, false},
	OpNotice: {NoticeHeadBytes, NoticeHeadBytes + NoticeBytesMax, false, true},
	OpPlaced: {0, PayloadBytesMax, true, true},
	OpGet:    {GetBytes, GetBytes, false, false},
	OpAtomic: {AtomicBytes, AtomicBytes, false, false},
	OpResult: {ResultBytes, ResultBytes, false, false},
	OpFailed: {FailedBytes, FailedBytes, false, false},
}

// decodeOp decodes those header fields that only packets with FlagOp have. decodeOp reports whether
// these header fields are valid, which means that the OpCode is known and the reserved field is
// zero.
func (h *Header) decodeOp(e []byte) bool {
	op := le.Uint64(e)
	h.Op, h.OpCode, h.OpBytes = uint32(op), OpCode(op>>32), uint8(op>>40)
	return op>>48 == 0 && h.OpCode >= OpPart && h.OpCode <= OpFailed &&
		(h.OpBytes == 0 || h.OpCode == OpPlaced && h.OpBytes <= NoticeBytesMax)
}

func checkOp(h *Header) error {
	rule := &opPayload[h.OpCode]
	switch {
	case rule.put != (h.Flags&FlagPut != 0), h.Kind == KindChunk && h.OpCode != OpPart:
		return ErrFlags
	case h.Tag > TagUserMax, !rule.tag && h.Tag != 0:
		return ErrTag
	case h.PayloadLen < rule.least || h.PayloadLen > rule.most, h.PayloadLen < uint16(h.OpBytes):
		return ErrLength
	}
	return nil
}

// Get is the payload of an OpGet. An OpGet requests SizeBytes bytes, starting at Offset, of the
// peer's memory region Handle. The peer answers an OpGet with a put of SizeBytes to the beginning
// of the requester's memory region Answer.
type Get struct {
	Handle, Offset, Answer uint64
	SizeBytes              uint32
}

// Marshal writes the encoded Get to b, which must have GetBytes bytes.
func (g *Get) Marshal(b []byte) {
	p := (*[GetBytes]byte)(b)
	le.PutUint64(p[0:], g.Handle)
	le.PutUint64(p[8:], g.Offset)
	le.PutUint64(p[16:], g.Answer)
	le.PutUint64(p[24:], uint64(g.SizeBytes))
}

// DecodeGet decodes the payload of an OpGet, and reports whether the reserved field of the payload
// is zero, as it must be.
func DecodeGet(b []byte, g *Get) bool {
	p := (*[GetBytes]byte)(b)
	*g = Get{
		Handle: le.Uint64(p[0:]), Offset: le.Uint64(p[8:]), Answer: le.Uint64(p[16:]),
		SizeBytes: le.Uint32(p[24:]),
	}
	return le.Uint32(p[28:]) == 0
}

// Action is the change that an atomic operation makes to a number.
type Action uint8

// ActionCompareSwap is the only action that uses the field Compare of Atomic.
const (
	ActionAdd         Action = 1
	ActionSwap        Action = 2
	ActionCompareSwap Action = 3
	ActionAnd         Action = 4
	ActionOr          Action = 5
	ActionXor         Action = 6
	ActionMin         Action = 7 // of unsigned numbers
	ActionMax         Action = 8
	ActionRead        Action = 9
)

// Atomic is the payload of an OpAtomic.
type Atomic struct {
	Handle, Offset   uint64
	Operand, Compare uint64
	Action           Action
	WidthBytes       uint8 // 4 or 8; Offset is a multiple of WidthBytes
	Fetch            bool  // whether the requester wants the value before the change
}

// Marshal writes the encoded Atomic to b, which must have AtomicBytes bytes.
func (a *Atomic) Marshal(b []byte) {
	p := (*[AtomicBytes]byte)(b)
	le.PutUint64(p[0:], a.Handle)
	le.PutUint64(p[8:], a.Offset)
	le.PutUint64(p[16:], a.Operand)
	le.PutUint64(p[24:], a.Compare)
	last := uint64(a.Action) | uint64(a.WidthBytes)<<8
	if a.Fetch {
		last |= 1 << 16
	}
	le.PutUint64(p[32:], last)
}

// DecodeAtomic decodes the payload of an OpAtomic, and reports whether the payload describes a
// valid atomic operation.
func DecodeAtomic(b []byte, a *Atomic) bool {
	p := (*[AtomicBytes]byte)(b)
	last := le.Uint64(p[32:])
	*a = Atomic{
		Handle: le.Uint64(p[0:]), Offset: le.Uint64(p[8:]), Operand: le.Uint64(p[16:]),
		Compare: le.Uint64(p[24:]), Action: Action(last), WidthBytes: uint8(last >> 8),
		Fetch: last>>16&1 != 0,
	}
	return last>>17 == 0 && a.Valid()
}

// Valid reports whether the fields of the atomic operation are consistent. The action must be a
// defined one, the width must be 4 or 8 bytes, and the operands must fit in the width.
func (a *Atomic) Valid() bool {
	switch {
	case a.Action < ActionAdd || a.Action > ActionRead,
		a.Action != ActionCompareSwap && a.Compare != 0,
		a.Action == ActionRead && (a.Operand != 0 || !a.Fetch):
		return false
	case a.WidthBytes == 4:
		return a.Operand>>32 == 0 && a.Compare>>32 == 0
	}
	return a.WidthBytes == 8
}

// Apply returns the value that a number has after the atomic operation. The argument "old" of Apply
// is the value of the number before the atomic operation.
func (a *Atomic) Apply(old uint64) uint64 {
	v := old
	switch a.Action {
	case ActionAdd:
		v = old + a.Operand
	case ActionSwap:
		v = a.Operand
	case ActionCompareSwap:
		if old == a.Compare {
			v = a.Operand
		}
	case ActionAnd:
		v = old & a.Operand
	case ActionOr:
		v = old | a.Operand
	case ActionXor:
		v = old ^ a.Operand
	case ActionMin:
		v = min(old, a.Operand)
	case ActionMax:
		v = max(old, a.Operand)
	case ActionRead:
	}
	if a.WidthBytes == 4 {
		v = uint64(uint32(v))
	}
	return v
}

// PutNotice writes the payload of an OpNotice to b, and returns the length of the payload. The
// argument waitsBytes of PutNotice is the length of the put whose arrival the notice reports. The
// argument "says" of PutNotice is the content of the notice.
func PutNotice(b []byte, waitsBytes uint32, says []byte) int {
	le.PutUint32(b, waitsBytes)
	return NoticeHeadBytes + copy(b[NoticeHeadBytes:], says)
}

// DecodeNotice decodes the payload of an OpNotice.
func DecodeNotice(b []byte) (waitsBytes uint32, says []byte) {
	return le.Uint32(b), b[NoticeHeadBytes:]
}

// PutResult writes the payload of an OpResult to b.
func PutResult(b []byte, value uint64) { le.PutUint64(b, value) }

// DecodeResult decodes the payload of an OpResult.
func DecodeResult(b []byte) uint64 { return le.Uint64(b) }
