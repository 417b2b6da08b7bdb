package frag

// FeatureOps is the feature of a sender that takes operations, packets with FlagOp.
const FeatureOps uint64 = 1 << 2

// OpCode says what a packet with FlagOp is of an operation.
type OpCode uint8

// The codes. Part and Placed are puts, the others Frags without FlagPut.
const (
	// OpPart: a packet of a put that has a notice, which waits for its bytes.
	OpPart OpCode = 1
	// OpNotice is that notice: its tag, the bytes that it waits for (u32), and what it says.
	OpNotice OpCode = 2
	// OpPlaced is a Frag that is the whole of a put and its notice: the last OpBytes of its payload
	// are what the notice says.
	OpPlaced OpCode = 3
	// OpGet asks for bytes of a region: GetBytes, see Get.
	OpGet OpCode = 4
	// OpAtomic asks to change a number in a region: AtomicBytes, see Atomic.
	OpAtomic OpCode = 5
	// OpResult answers an OpAtomic that wants to know the old value, 8 bytes.
	OpResult OpCode = 6
	// OpFailed answers an OpGet that cannot be answered any more: a reason of a Nack, 1 byte.
	OpFailed OpCode = 7
)

// Sizes of what operations carry, in bytes.
const (
	NoticeBytesMax  = 64 // what a notice says
	NoticeHeadBytes = 4  // of an OpNotice, before that
	GetBytes        = 32
	AtomicBytes     = 40
	ResultBytes     = 8
	FailedBytes     = 1
)

// opPayload is how long the payload of each code is, and whether it has a tag.
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

// decodeOp reads the extra of an operation; false if there is no such code, or what is reserved is
// not zero.
func (h *Header) decodeOp(e []byte) bool {
	op := le.Uint64(e)
	h.Op, h.OpCode, h.OpBytes = uint32(op), OpCode(op>>32), uint8(op>>40)
	return op>>48 == 0 && h.OpCode >= OpPart && h.OpCode <= OpFailed &&
		(h.OpBytes == 0 || h.OpCode == OpPlaced && h.OpBytes <= NoticeBytesMax)
}

// opExtra is the extra of an operation as a word.
func (h *Header) opExtra() uint64 {
	return uint64(h.Op) | uint64(h.OpCode)<<32 | uint64(h.OpBytes)<<40
}

// checkOp checks what the header of an operation says besides.
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

// Get is what an OpGet asks for: SizeBytes from Offset of the region Handle, to be put into the
// requester's region Answer, from its beginning on.
type Get struct {
	Handle, Offset, Answer uint64
	SizeBytes              uint32
}

// Marshal writes g into b, GetBytes.
func (g *Get) Marshal(b []byte) {
	p := (*[GetBytes]byte)(b)
	le.PutUint64(p[0:], g.Handle)
	le.PutUint64(p[8:], g.Offset)
	le.PutUint64(p[16:], g.Answer)
	le.PutUint64(p[24:], uint64(g.SizeBytes))
}

// DecodeGet reads the payload of an OpGet; false if what is reserved in it is not zero.
func DecodeGet(b []byte, g *Get) bool {
	p := (*[GetBytes]byte)(b)
	*g = Get{
		Handle: le.Uint64(p[0:]), Offset: le.Uint64(p[8:]), Answer: le.Uint64(p[16:]),
		SizeBytes: le.Uint32(p[24:]),
	}
	return le.Uint32(p[28:]) == 0
}

// Action is what an atomic operation does to a number.
type Action uint8

// The actions; Compare counts for ActionCompareSwap alone.
const (
	ActionAdd         Action = 1
	ActionSwap        Action = 2
	ActionCompareSwap Action = 3
	ActionAnd         Action = 4
	ActionOr          Action = 5
	ActionXor         Action = 6
	ActionMin         Action = 7 // of numbers without a sign
	ActionMax         Action = 8
	ActionRead        Action = 9
)

// Atomic is what an OpAtomic asks for.
type Atomic struct {
	Handle, Offset   uint64
	Operand, Compare uint64
	Action           Action
	WidthBytes       uint8 // 4 or 8; Offset is a multiple of it
	Fetch            bool  // whether the old value is wanted
}

// Marshal writes a into b, AtomicBytes.
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

// DecodeAtomic reads the payload of an OpAtomic; false if it asks for what there is not.
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

// Valid says whether there is such an operation: its action, its width, and numbers that fit it.
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

// Apply returns what a makes of an old value.
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

// PutNotice writes the payload of an OpNotice into b: the bytes that it waits for, and what it
// says. It returns the payload's length.
func PutNotice(b []byte, waitsBytes uint32, says []byte) int {
	le.PutUint32(b, waitsBytes)
	return NoticeHeadBytes + copy(b[NoticeHeadBytes:], says)
}

// DecodeNotice reads the payload of an OpNotice.
func DecodeNotice(b []byte) (waitsBytes uint32, says []byte) {
	return le.Uint32(b), b[NoticeHeadBytes:]
}

// PutResult writes the payload of an OpResult into b.
func PutResult(b []byte, value uint64) { le.PutUint64(b, value) }

// DecodeResult reads the payload of an OpResult.
func DecodeResult(b []byte) uint64 { return le.Uint64(b) }
