package frag

import (
	"encoding/binary"

	"gobtl/internal/seq"
)

// le is the byte order of every field on the wire.
var le = binary.LittleEndian

// Magic is the first byte of every packet. Version is the protocol version of this package, in the
// high nibble of a packet's second byte. Versions go from 1 to VersionLimit.
const (
	Magic        = 0xB7
	Version      = 2
	VersionLimit = 15
)

// Kind is the type of a packet, which is in the low nibble of the packet's second byte.
type Kind uint8

// Only packets of the kinds Frag, Chunk and Pack have a sequence number of their own.
const (
	KindFrag     Kind = 1  // a whole fragment, or a transport mark (TagBye, TagVoid)
	KindChunk    Kind = 2  // a part of a fragment larger than a packet
	KindAck      Kind = 3  // an ACK-only packet
	KindHello    Kind = 4  // asks for a connection, validates a path, keeps a connection alive
	KindHelloAck Kind = 5  // answers one Hello on the same channel
	KindNack     Kind = 6  // one packet was refused; Tag has the reason (NackAccess ...)
	KindReject   Kind = 7  // a Hello was refused; Tag has the reason
	KindPack     Kind = 8  // several fragments or parts of fragments (PutRecord)
	KindPart     Kind = 9  // a slice of a packet that is too large for the path (PutPart)
	KindPing     Kind = 10 // asks whether a packet of the Ping's size reaches the peer
	KindPong     Kind = 11 // answers a Ping
	KindRetry    Kind = 12 // a cookie, in answer to a Hello from an address that is not validated
)

var kindNames = [16]string{
	KindFrag: "frag", KindChunk: "chunk", KindAck: "ack", KindHello: "hello",
	KindHelloAck: "hello-ack", KindNack: "nack", KindReject: "reject",
	KindPack: "pack", KindPart: "part", KindPing: "ping", KindPong: "pong", KindRetry: "retry",
}

// kindsKnown has a set bit for each defined kind.
const kindsKnown = 1<<KindFrag | 1<<KindChunk | 1<<KindAck | 1<<KindHello | 1<<KindHelloAck |
	1<<KindNack | 1<<KindReject | 1<<KindPack | 1<<KindPart | 1<<KindPing | 1<<KindPong |
	1<<KindRetry

// String returns the kind's name in lower case, or "unknown" for an undefined kind.
func (k Kind) String() string {
	if k < 16 && kindNames[k] != "" {
		return kindNames[k]
	}
	return "unknown"
}

// HasSeq reports whether packets of kind k have a sequence number.
func (k Kind) HasSeq() bool { return k == KindFrag || k == KindChunk || k == KindPack }

// Flags is the third byte of a packet. All bits of Flags that have no constant below are reserved
// and must be zero.
type Flags uint8

// The flags.
const (
	// FlagAck says that the header fields Ack, Credit and CreditBytes are valid. In a packet without
	// FlagAck, the fields Ack, Credit and CreditBytes are zero.
	FlagAck Flags = 1 << 0
	// FlagPut says that the packet is a put, whose payload the receiver writes to one of its memory
	// regions (fields Handle and PutOffset), without calling a handler. FlagPut is permitted only in a
	// Frag or a Chunk.
	FlagPut Flags = 1 << 1
	// FlagDup says that the packet's acknowledgement only answers duplicate packets. An
	// acknowledgement with FlagDup is no sign of a lost packet, even if it repeats the previous
	// acknowledgement. FlagDup requires FlagAck.
	FlagDup Flags = 1 << 2
	// FlagSack says that the payload of an Ack is a Sack (selective acknowledgement). FlagSack is
	// permitted only in an Ack, and only if both ends have announced FeatureSack.
	FlagSack Flags = 1 << 3
	// FlagOp says that the packet belongs to an operation on a peer's memory, whose number is in
	// Header.Op. FlagOp is permitted only in a Frag or a Chunk, and only if both ends have announced
	// FeatureOps.
	FlagOp Flags = 1 << 4
	// FlagAsk requests the acknowledgement of all packets with sequence numbers up to and including
	// the header's Seq. A module that receives an Ack with FlagAsk should send the acknowledgement
	// immediately. FlagAsk is permitted only in an Ack, and only if both ends have announced
	// FeatureAsk.
	FlagAsk Flags = 1 << 5
	// FlagLater permits the receiver to delay the acknowledgement of the packet for longer than the
	// ACK delay from its Hello. FlagLater is permitted only if both ends have announced FeatureLater,
	// and only in a Frag with FlagAck and a tag other than TagBye and TagVoid.
	FlagLater Flags = 1 << 7
)

// The receiver chooses the handler for a fragment by the fragment's tag, which is in the header of
// a Frag or a Chunk, or in a record of a Pack. Tags above TagUserMax are for the transport. A tag
// above TagUserMax is reserved if it has no constant below. The header of a put or a Pack has tag
// 0.
const (
	TagUserMax = 0xEF // the largest tag that a caller may use
	TagVoid    = 0xFE // an empty Frag that replaces a packet refused with a Nack
	TagBye     = 0xFF // a Frag that ends the connection; its payload is empty or a Bye code
)

// The constants below are sizes of packets and of headers in bytes.
const (
	FragHeaderBytes     = 32 // the common header, without extras
	PutHeaderBytes      = 48 // Frag with FlagPut
	ChunkHeaderBytes    = 48
	ChunkPutHeaderBytes = 64
	AckBytes            = 32 // a whole Ack without a Sack
	NackBytes           = 32 // a whole Nack of a reason other than NackRecord
	NackRecordBytes     = 33 // a whole Nack of reason NackRecord
	HeaderBytesMax      = ChunkPutHeaderBytes + opExtraBytes
	PayloadBytesMax     = 1<<16 - 1
	OverheadBytesMax    = 64 // the largest protection overhead at the end of a datagram

	chunkExtraBytes = ChunkHeaderBytes - FragHeaderBytes
	putExtraBytes   = PutHeaderBytes - FragHeaderBytes
	opExtraBytes    = 8
)

// ChunkBytesMin is the smallest Header.ChunkBytes. ChunkBytesMin limits the receiver's bitmap of
// arrived chunks, which has one bit for each chunk of a fragment.
const ChunkBytesMin = 128

// CreditBytesUnit is the unit of Header.CreditBytes, in bytes. CreditBytesAll is the value of
// Header.CreditBytes for "no limit in bytes".
const (
	CreditBytesUnit = 4 << 10
	CreditBytesAll  = 1<<16 - 1
)

// Header is a decoded packet header. The fields Kind and Flags of a header determine which of the
// remaining fields are valid. Header fields that are not valid are set to zero by Decode, and
// ignored by Encode.
type Header struct {
	Conn      uint64 // the receiver's connection tag; 0 only in a Hello before the tag is known
	Handle    uint64 // FlagPut: the target region
	PutOffset uint64 // FlagPut: offset of the payload in the region, in bytes
	// Seq is a sequence number, whose meaning depends on the kind of the packet. In a Frag, Chunk or
	// Pack, Seq is the packet's own sequence number. In a Hello or HelloAck, Seq is the first sequence
	// number that the sender will use. In a Nack, Seq is the sequence number of the refused packet. In
	// an Ack with FlagAsk, Seq is the sequence number up to which an acknowledgement is requested. In
	// a Part, Seq is the sequence number of the original packet.
	Seq seq.Num
	// Ack is the highest sequence number that the packet's sender has received in order. Ack is valid
	// only with FlagAck.
	Ack seq.Num
	// Number is the lower half (32 bits) of the packet number. On each channel of a connection, every
	// transmission, including each retransmission, has a new packet number. If the connection tag Conn
	// is 0, the packet number is 0, too.
	Number      uint32
	FragID      uint32 // Chunk: id of the fragment, ascending per sender
	SizeBytes   uint32 // Chunk: size of the whole fragment
	OffsetBytes uint32 // Chunk: offset of the payload in the fragment
	Op          uint32 // FlagOp: number of the operation, which the requester has chosen
	PayloadLen  uint16 // payload bytes after the header
	Credit      uint16 // FlagAck: packets after Ack that the sender has room for
	// CreditBytes limits the total size of those packets from the peer that have sequence numbers
	// above Ack. CreditBytes is valid only with FlagAck. The unit of CreditBytes is CreditBytesUnit.
	// If CreditBytes is CreditBytesAll, the peer has no limit in bytes.
	CreditBytes uint16
	// FirstBytes and ChunkBytes are the chunk sizes of the fragment in a Chunk without FlagPut, and 0
	// in every packet that is not such a Chunk. FirstBytes is the size of the first chunk. ChunkBytes
	// is the size of each chunk after the first one, except that the last chunk may be shorter.
	FirstBytes uint16
	ChunkBytes uint16
	OpCode     OpCode // FlagOp: the role of the packet in the operation
	OpBytes    uint8  // OpPlaced: length of the notice at the end of the payload
	Kind       Kind
	Flags      Flags
	Tag        uint8 // handler tag, transport tag or reason
}

// HeaderBytes returns the length of the header of a packet with the given kind and flags.
func HeaderBytes(kind Kind, flags Flags) int {
	n := FragHeaderBytes
	if kind == KindChunk {
		n += chunkExtraBytes
	}
	if flags&FlagPut != 0 {
		n += putExtraBytes
	}
	if flags&FlagOp != 0 {
		n += opExtraBytes
	}
	return n
}

// Encode writes the header at the start of b, and returns the header's length, which is
// HeaderBytes(h.Kind, h.Flags). The caller writes h.PayloadLen bytes of payload after the header.
// Encode does not check the fields of the header. Encode panics if the slice b is shorter than the
// header.
func (h *Header) Encode(b []byte) int {
	c := (*[FragHeaderBytes]byte)(b)
	le.PutUint32(c[0:], Magic|(Version<<4|uint32(h.Kind))<<8|uint32(h.Flags)<<16|uint32(h.Tag)<<24)
	le.PutUint64(c[4:], h.Conn)
	le.PutUint32(c[12:], h.Number)
	ack, credit := uint64(h.Ack), uint64(h.Credit)<<16|uint64(h.CreditBytes)<<32
	if h.Flags&FlagAck == 0 {
		ack, credit = 0, 0
	}
	le.PutUint64(c[16:], uint64(h.Seq)|ack<<32)
	n := FragHeaderBytes
	if h.Kind == KindChunk {
		e := (*[chunkExtraBytes]byte)(b[n:])
		le.PutUint32(e[0:], h.FragID)
		le.PutUint32(e[4:], h.SizeBytes)
		grid := uint64(h.FirstBytes)<<32 | uint64(h.ChunkBytes)<<48
		if h.Flags&FlagPut != 0 {
			grid = 0
		}
		le.PutUint64(e[8:], uint64(h.OffsetBytes)|grid)
		n += chunkExtraBytes
	}
	if h.Flags&FlagPut != 0 {
		e := (*[putExtraBytes]byte)(b[n:])
		le.PutUint64(e[0:], h.Handle)
		le.PutUint64(e[8:], h.PutOffset)
		n += putExtraBytes
	}
	if h.Flags&FlagOp != 0 {
		le.PutUint64(b[n:], uint64(h.Op)|uint64(h.OpCode)<<32|uint64(h.OpBytes)<<40)
		n += opExtraBytes
	}
	le.PutUint64(c[24:], uint64(h.PayloadLen)|credit|uint64(n-FragHeaderBytes)/4<<48)
	return n
}

// Decode reads the whole datagram pkt into *h and returns the packet's payload, which aliases pkt.
// If Encode could not have written the packet, Decode returns one of the decoding errors of package
// frag (see ErrShort). After an error the content of *h is undefined. Decode never allocates.
//
// The caller decodes the payload by the function for the packet's kind, such as DecodeHello,
// DecodeReject, DecodeRetry, NextRecord (for a Pack), DecodeSack or ByeCode.
func Decode(pkt []byte, h *Header) (payload []byte, err error) {
	return DecodeOver(pkt, 0, h)
}

// DecodeOver works like Decode, for a datagram that ends with a trailer of a different protocol
// layer. The trailer is overheadBytes long (at most OverheadBytesMax), and is not part of the
// payload.
func DecodeOver(pkt []byte, overheadBytes int, h *Header) (payload []byte, err error) {
	pkt = pkt[:max(0, len(pkt)-overheadBytes)]
	n, err := decodeHeader(pkt, len(pkt), h)
	if err != nil {
		return nil, err
	}
	payload = pkt[n:]
	if h.hasBody() {
		if err := checkBody(payload, h); err != nil {
			return nil, err
		}
	}
	return payload, nil
}

// DecodeSplit works like Decode, for a datagram of sizeBytes of which only the first bytes are in
// the slice "head", and the remaining bytes are outside of this slice. The slice "head" must
// contain the whole header. DecodeSplit returns the length of the header, after which the payload
// begins. DecodeSplit returns ErrKind for an undefined kind, and for a packet whose payload only
// Decode can check. The payloads that Decode checks are those of a Pack, Hello, HelloAck, Reject,
// Retry, Part, Ping or Pong, of a Nack with NackRecord, of an Ack with a Sack, and of a Bye with a
// code. If DecodeSplit returns ErrKind, the caller must copy the whole datagram to one buffer, and
// call Decode.
func DecodeSplit(head []byte, sizeBytes int, h *Header) (headerBytes int, err error) {
	n, err := decodeHeader(head, sizeBytes, h)
	if err != nil {
		return 0, err
	}
	if h.hasBody() {
		return 0, ErrKind
	}
	return n, nil
}

// hasBody reports whether Decode must check the contents of the packet's payload.
func (h *Header) hasBody() bool {
	const plain = 1<<KindFrag | 1<<KindChunk | 1<<KindAck | 1<<KindNack
	return plain>>h.Kind&1 == 0 || h.Kind == KindNack && nackPayload(h.Tag) != 0 ||
		h.Flags&FlagSack != 0 || h.Tag == TagBye && h.PayloadLen != 0
}

func nackPayload(reason uint8) uint16 {
	if reason == NackRecord {
		return NackRecordBytes - NackBytes
	}
	return 0
}

func decodeHeader(pkt []byte, sizeBytes int, h *Header) (headerBytes int, err error) {
	if len(pkt) < FragHeaderBytes {
		return 0, ErrShort
	}
	c := (*[FragHeaderBytes]byte)(pkt)
	if c[0] != Magic {
		return 0, ErrMagic
	}
	if c[1]>>4 != Version {
		return 0, ErrVersion
	}
	kind, flags := Kind(c[1]&0x0F), Flags(c[2])
	if kindsKnown>>kind&1 == 0 {
		return 0, ErrKind
	}
	if flags&^allowedFlags[kind] != 0 ||
		flags&FlagAck == 0 && (flags&(FlagDup|FlagLater) != 0 || kind == KindAck) {
		return 0, ErrFlags
	}
	n := HeaderBytes(kind, flags)
	if len(pkt) < n {
		return 0, ErrShort
	}
	h.Kind, h.Flags, h.Tag = kind, flags, c[3]
	h.Conn, h.Number = le.Uint64(c[4:]), le.Uint32(c[12:])
	h.Seq, h.Ack = seq.Num(le.Uint32(c[16:])), seq.Num(le.Uint32(c[20:]))
	lens := le.Uint64(c[24:])
	h.PayloadLen, h.Credit, h.CreditBytes = uint16(lens), uint16(lens>>16), uint16(lens>>32)
	if lens>>48 != uint64(n-FragHeaderBytes)/4 {
		return 0, ErrReserved
	}
	h.Handle, h.PutOffset, h.Op, h.OpCode, h.OpBytes = 0, 0, 0, 0, 0
	if flags&FlagOp != 0 && !h.decodeOp(pkt[n-opExtraBytes:n]) {
		return 0, ErrReserved
	}
	if kind == KindChunk { // not in a function, because most packets are chunks
		e := (*[chunkExtraBytes]byte)(pkt[FragHeaderBytes:])
		h.FragID, h.SizeBytes, h.OffsetBytes = le.Uint32(e[0:]), le.Uint32(e[4:]), le.Uint32(e[8:])
		h.FirstBytes, h.ChunkBytes = le.Uint16(e[12:]), le.Uint16(e[14:])
		if !h.inFragment() {
			return 0, ErrBounds
		}
	} else {
		h.FragID, h.SizeBytes, h.OffsetBytes = 0, 0, 0
		h.FirstBytes, h.ChunkBytes = 0, 0
	}
	if sizeBytes-n != int(h.PayloadLen) {
		return 0, ErrLength
	}
	if flags&FlagAck == 0 && uint32(h.Ack)|uint32(h.Credit)|uint32(h.CreditBytes) != 0 {
		return 0, ErrReserved
	}
	if h.Conn == 0 && (kind != KindHello || h.Number != 0) {
		return 0, ErrConn
	}
	switch {
	case kind > KindChunk:
		err = checkOther(h)
	case flags&FlagPut != 0:
		err = decodePut(pkt[:n], h)
	case h.Tag > TagUserMax:
		err = checkMark(h)
	}
	if err == nil && flags&FlagOp != 0 {
		err = checkOp(h)
	}
	return n, err
}

var allowedFlags = [16]Flags{
	KindFrag:  FlagAck | FlagDup | FlagPut | FlagOp | FlagLater,
	KindChunk: FlagAck | FlagDup | FlagPut | FlagOp,
	KindAck:   FlagAck | FlagDup | FlagSack | FlagAsk,
	KindNack:  FlagAck | FlagDup,
	KindPack:  FlagAck | FlagDup,
}

// inFragment reports whether the offset and the length of a chunk are valid for the size of its
// fragment. A chunk of a put is allowed to begin at any offset of the fragment.
func (h *Header) inFragment() bool {
	if h.Flags&FlagPut != 0 {
		return h.PayloadLen != 0 && h.FirstBytes|h.ChunkBytes == 0 &&
			uint64(h.OffsetBytes)+uint64(h.PayloadLen) <= uint64(h.SizeBytes)
	}
	g := gridOf(h)
	if g.chunk < ChunkBytesMin {
		return false
	}
	_, err := locate(h, int(h.PayloadLen))
	return err == nil
}

func decodePut(head []byte, h *Header) error {
	if h.Tag != 0 && h.Flags&FlagOp == 0 {
		return ErrTag
	}
	at := FragHeaderBytes
	if h.Kind == KindChunk {
		at += chunkExtraBytes
	}
	e := head[at:][:putExtraBytes]
	h.Handle = le.Uint64(e[0:])
	h.PutOffset = le.Uint64(e[8:])
	if h.PutOffset+uint64(h.PayloadLen) < h.PutOffset {
		return ErrBounds
	}
	return nil
}

// checkMark checks the header of a packet with a tag of the transport (TagVoid or TagBye). A packet
// with such a tag must be a Frag.
func checkMark(h *Header) error {
	switch {
	case h.Kind != KindFrag || h.Flags&(FlagOp|FlagLater) != 0 || h.Tag != TagBye && h.Tag != TagVoid:
		return ErrTag
	case h.PayloadLen != 0 && (h.Tag != TagBye || h.PayloadLen != ByeCodeBytes):
		return ErrLength
	}
	return nil
}

func checkOther(h *Header) error {
	switch h.Kind {
	case KindAck:
		if h.Tag != 0 {
			return ErrTag
		}
		if h.Seq != 0 && h.Flags&FlagAsk == 0 {
			return ErrReserved
		}
		if h.Flags&FlagSack == 0 && h.PayloadLen != 0 ||
			h.Flags&FlagSack != 0 && !sackLength(int(h.PayloadLen)) {
			return ErrLength
		}
	case KindNack:
		if h.Tag < NackAccess || h.Tag > NackRight {
			return ErrTag
		}
		if h.PayloadLen != nackPayload(h.Tag) {
			return ErrLength
		}
	case KindPart, KindPing, KindPong:
		return checkAside(h)
	case KindReject, KindRetry:
		return checkAnswer(h)
	default: // Hello, HelloAck, Pack
		if h.Tag != 0 {
			return ErrTag
		}
		if h.Kind != KindPack && h.PayloadLen < helloFixedBytes {
			return ErrLength
		}
	}
	return nil
}

func checkAside(h *Header) error {
	switch {
	case h.Tag != 0:
		return ErrTag
	case h.Kind != KindPart && h.Seq != 0:
		return ErrReserved
	case h.Kind != KindPart && !pingLength(h.Kind, int(h.PayloadLen)),
		h.Kind == KindPart && h.PayloadLen <= partHeadBytes:
		return ErrLength
	}
	return nil
}

func checkBody(p []byte, h *Header) error {
	switch h.Kind {
	case KindFrag:
		if ByeCode(p) == ByeClosed { // ByeClosed has no payload
			return ErrReserved
		}
	case KindPack:
		return checkRecords(p)
	case KindAck:
		return checkSack(p)
	case KindNack:
		if h.Tag == NackRecord && p[0] > TagUserMax {
			return ErrTag
		}
	case KindPart:
		return checkPart(p)
	case KindPing:
		if !allZero(p[nonceBytes:]) {
			return ErrReserved
		}
	case KindReject, KindRetry:
		return checkAnswerBody(p, h)
	default:
	}
	return nil
}
