package frag

// Small operations that go out together share a Pack, all of whose records are such: an operation
// in a record is
//
//	0 u8, flags u8 (Op), lengthBytes u16, number u32, code u8, place u8, 0 u16, then its payload
//
// What would be refused of it is named by its place, which stays the same when others of the Pack
// are taken out.

// FeatureJoin is the feature of a sender that takes packs of operations. It counts only together
// with FeatureOps, and not in a reliable connection.
const FeatureJoin uint64 = 1 << 3

// OpRecordExtraBytes is what an operation takes in a record beside RecordHeaderBytes and its
// payload.
const OpRecordExtraBytes = 8

// JoinedMax is the largest number of operations in a pack.
const JoinedMax = 256

// OpRecord is an operation in a pack.
type OpRecord struct {
	Number  uint32 // of the operation; 0 of an OpAtomic that wants no value
	Code    OpCode // OpAtomic or OpResult
	Place   uint8  // 0 for the first one in the pack as it was first sent, then 1, ...
	Payload []byte // AtomicBytes or ResultBytes
}

// Marshal writes a record at the start of b and returns its length. It does not check what Decode
// would refuse; it panics if b is too short.
func (o *OpRecord) Marshal(b []byte) int {
	n := RecordHeaderBytes + OpRecordExtraBytes + len(o.Payload)
	e := (*[RecordHeaderBytes + OpRecordExtraBytes]byte)(b)
	le.PutUint32(e[0:], recordOp|uint32(OpRecordExtraBytes+len(o.Payload))<<16)
	le.PutUint32(e[4:], o.Number)
	le.PutUint32(e[8:], uint32(o.Code)|uint32(o.Place)<<8)
	copy(b[len(e):n:len(b)], o.Payload)
	return n
}

// IsOperation says whether the first record of what is left of a pack is an operation. If it is, so
// are all of the pack.
func IsOperation(payload []byte) bool { return payload[1]&(recordOp>>8) != 0 }

// DecodeOpRecord reads the data of a record that is an operation. The payload aliases data.
func DecodeOpRecord(data []byte) OpRecord {
	e := (*[OpRecordExtraBytes]byte)(data)
	return OpRecord{
		Number: le.Uint32(e[0:]), Code: OpCode(e[4]), Place: e[5], Payload: data[OpRecordExtraBytes:],
	}
}

// checkOpRecord checks the operation of n bytes at the start of p.
func checkOpRecord(p []byte, n int) error {
	if n < RecordHeaderBytes+OpRecordExtraBytes {
		return ErrLength
	}
	o := DecodeOpRecord(p[RecordHeaderBytes:n])
	switch {
	case p[0] != 0:
		return ErrTag
	case p[1] != recordOp>>8 || o.Code != OpAtomic && o.Code != OpResult:
		return ErrFlags
	case p[10]|p[11] != 0:
		return ErrReserved
	case len(o.Payload) != int(opPayload[o.Code].most):
		return ErrLength
	}
	return nil
}
