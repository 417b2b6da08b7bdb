package stranger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The numbers of the page, sections 3 and 8.
const (
	magic   = 0xB7
	version = 2

	kindFrag, kindChunk, kindAck, kindHello = 1, 2, 3, 4
	kindHelloAck, kindNack, kindReject      = 5, 6, 7
	kindPack                                = 8
	kindPart, kindPing, kindPong            = 9, 10, 11
	kindRetry                               = 12

	flagAck, flagPut, flagDup, flagSack = 0x01, 0x02, 0x04, 0x08
	flagOp                              = 0x10

	sackHeadBytes, sackRangesMax = 24, 256

	tagBye, tagVoid = 0xFF, 0xFE

	nackAccess, nackNoHandler, nackRecord  = 1, 2, 3
	nackRight                              = 6
	nackMemory                             = 4
	rejectVersion, rejectFull, rejectStale = 1, 2, 3
	rejectLast                             = 8

	headerBytes   = 32
	chunkBytesMin = 128
	noByteBound   = 0xFFFF
	helloBytes    = 72 // of a Hello's payload, without extensions
	addrBytesMax  = 64
	provenAll     = 3
)

var errNoPacket = errors.New("no packet")

var le = binary.LittleEndian

// Packet is any packet; the fields that its kind does not have are zero.
type Packet struct {
	Version, Kind, Flags, Tag uint8

	Conn        uint64
	Seq, Ack    uint32
	Credit      uint16
	Number      uint32
	CreditBytes uint16
	Op          uint32 // with the Op flag
	OpCode      uint8
	OpNotice    uint8

	FragID, Size, Offset uint32 // Chunk
	First, Grid          uint16 // Chunk, no put
	Handle, PutOffset    uint64 // with the Put flag

	Hello                  *Hello // Hello and HelloAck
	Retry                  *Retry // Retry
	VersionMin, VersionMax uint8  // Reject
	Code                   uint16 // Reject
	Nonce                  uint64 // Reject

	Records []Record // Pack
	Payload []byte   // Frag, Chunk, Nack, Ack with the Sack flag
}

// Hello is the body of a Hello or HelloAck.
type Hello struct {
	Incarnation, Tag, Expected, Nonce uint64
	Features, Required                uint64
	WindowPackets, FragmentBytesMax   uint32
	AckDelayUs                        uint32
	MTUBytes, CommandBytes, Credit    uint16
	VersionMin, VersionMax            uint8
	Channel, Proven, Overhead         uint8
	CommandName, DataName             []byte
	CommandCookie, DataCookie, Label  []byte
	Others                            []byte // extensions that are not known, which stand behind
}

// Retry is the body of a Retry.
type Retry struct {
	Nonce        uint64
	Channel      uint8
	Addr, Cookie []byte
}

// The flags that a kind may carry.
var flagsOf = [16]uint8{
	kindFrag: flagAck | flagDup | flagPut | flagOp, kindChunk: flagAck | flagDup | flagPut | flagOp,
	kindAck: flagAck | flagDup | flagSack, kindNack: flagAck | flagDup, kindPack: flagAck | flagDup,
}

// Encode appends the packet to b. It trusts its caller with the values.
func (p *Packet) Encode(b []byte) []byte {
	start := len(b)
	b = append(b, magic, p.Version<<4|p.Kind, p.Flags, p.Tag)
	b = le.AppendUint64(b, p.Conn)
	b = le.AppendUint32(b, p.Number)
	b = le.AppendUint32(b, p.Seq)
	b = le.AppendUint32(b, p.Ack)
	b = le.AppendUint16(b, 0) // payloadLen, below
	b = le.AppendUint16(b, p.Credit)
	b = le.AppendUint16(b, p.CreditBytes)
	b = append(b, uint8(p.extras()/4), 0)
	if p.Kind == kindChunk {
		b = p.appendChunk(b)
	}
	if p.Flags&flagPut != 0 {
		b = le.AppendUint64(b, p.Handle)
		b = le.AppendUint64(b, p.PutOffset)
	}
	if p.Flags&flagOp != 0 {
		b = append(le.AppendUint32(b, p.Op), p.OpCode, p.OpNotice, 0, 0)
	}
	header := len(b) - start
	switch p.Kind {
	case kindHello, kindHelloAck:
		b = p.Hello.encode(b)
	case kindRetry:
		b = p.Retry.encode(b)
	case kindReject:
		b = append(b, p.VersionMin, p.VersionMax)
		b = le.AppendUint16(b, p.Code)
		b = le.AppendUint64(b, p.Nonce)
	default:
		b = appendRecords(b, p.Records)
		b = append(b, p.Payload...)
	}
	le.PutUint16(b[start+24:], uint16(len(b)-start-header))
	return b
}

// appendChunk appends the extra of a Chunk.
func (p *Packet) appendChunk(b []byte) []byte {
	b = le.AppendUint32(b, p.FragID)
	b = le.AppendUint32(b, p.Size)
	b = le.AppendUint32(b, p.Offset)
	b = le.AppendUint16(b, p.First)
	return le.AppendUint16(b, p.Grid)
}

// decodeChunk reads it.
func (p *Packet) decodeChunk(b []byte) {
	p.FragID, p.Size, p.Offset = le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])
	p.First, p.Grid = le.Uint16(b[12:]), le.Uint16(b[14:])
}

// extras is the length of what stands between the common header and the payload.
func (p *Packet) extras() (n int) {
	if p.Kind == kindChunk {
		n += 16
	}
	if p.Flags&flagPut != 0 {
		n += 16
	}
	if p.Flags&flagOp != 0 {
		n += 8
	}
	return n
}

func (h *Hello) encode(b []byte) []byte {
	for _, v := range []uint64{h.Incarnation, h.Tag, h.Expected, h.Nonce, h.Features, h.Required} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(b, h.WindowPackets)
	b = le.AppendUint32(b, h.FragmentBytesMax)
	b = le.AppendUint32(b, h.AckDelayUs)
	b = le.AppendUint16(b, h.MTUBytes)
	b = le.AppendUint16(b, h.CommandBytes)
	b = le.AppendUint16(b, h.Credit)
	b = append(b, h.VersionMin, h.VersionMax, h.Channel, h.Proven, h.Overhead, 0)
	for i, v := range [][]byte{h.CommandName, h.DataName, h.CommandCookie, h.DataCookie, h.Label} {
		if len(v) > 0 {
			b = append(append(b, uint8(i+1), uint8(len(v))), v...)
		}
	}
	return append(b, h.Others...)
}

func (r *Retry) encode(b []byte) []byte {
	b = le.AppendUint64(b, r.Nonce)
	b = append(b, r.Channel, uint8(len(r.Addr)), uint8(len(r.Cookie)), 0)
	return append(append(b, r.Addr...), r.Cookie...)
}

// decodeRetry returns nil if it is malformed.
func decodeRetry(b []byte) *Retry {
	if len(b) < 12 || b[8] > 1 || b[9] > addrBytesMax || b[10] < 1 || b[10] > 32 || b[11] != 0 ||
		len(b) != 12+int(b[9])+int(b[10]) {
		return nil
	}
	at := 12 + int(b[9])
	return &Retry{
		Nonce: le.Uint64(b), Channel: b[8], Addr: bytes.Clone(b[12:at]), Cookie: bytes.Clone(b[at:]),
	}
}

// Decode reads a datagram of version 2. The payload points into b.
func Decode(b []byte) (*Packet, error) {
	if len(b) < headerBytes || b[0] != magic || b[1]>>4 != version {
		return nil, fmt.Errorf("%w: header", errNoPacket)
	}
	p := &Packet{
		Version: version, Kind: b[1] & 15, Flags: b[2], Tag: b[3], Conn: le.Uint64(b[4:]),
		Number: le.Uint32(b[12:]), Seq: le.Uint32(b[16:]), Ack: le.Uint32(b[20:]),
		Credit: le.Uint16(b[26:]), CreditBytes: le.Uint16(b[28:]),
	}
	if err := p.checkHeader(); err != nil {
		return nil, err
	}
	payloadLen, rest := int(le.Uint16(b[24:])), b[headerBytes:]
	extras := p.extras()
	if len(rest) != extras+payloadLen || int(b[30])*4 != extras || b[31] != 0 {
		return nil, fmt.Errorf("%w: length", errNoPacket)
	}
	return p, p.decodeRest(rest, rest[extras:])
}

func (p *Packet) checkHeader() error {
	ack := p.Flags&flagAck != 0
	put := p.Flags&flagPut != 0
	data := p.Kind == kindFrag || p.Kind == kindChunk
	bad := ""
	switch {
	case p.Kind < kindFrag || p.Kind > kindRetry:
		bad = "kind"
	case p.Flags&^flagsOf[p.Kind] != 0, p.Kind == kindAck && !ack, p.Flags&flagDup != 0 && !ack:
		bad = "flags"
	case !ack && (p.Ack != 0 || p.Credit != 0 || p.CreditBytes != 0):
		bad = "ack without the flag"
	case p.Conn == 0 && (p.Kind != kindHello || p.Number != 0),
		(p.Kind == kindReject || p.Kind == kindRetry) && p.Number != 0:
		bad = "conn"
	case p.Seq != 0 && (p.Kind == kindAck || p.Kind == kindReject || p.Kind >= kindPing):
		bad = "seq"
	case data && put && p.Tag != 0 && p.Flags&flagOp == 0, p.Kind == kindChunk && p.Tag >= 0xF0,
		p.Kind == kindFrag && p.Tag >= 0xF0 && p.Tag < tagVoid,
		p.Tag != 0 && (p.Kind == kindAck || p.Kind == kindHello || p.Kind == kindHelloAck),
		p.Tag != 0 && p.Kind >= kindPack,
		p.Kind == kindNack && (p.Tag < nackAccess || p.Tag > nackRight),
		p.Kind == kindReject && (p.Tag < rejectVersion || p.Tag > rejectLast):
		bad = "tag"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", errNoPacket, bad)
}

// numbered says whether the packet occupies a sequence number.
func (p *Packet) numbered() bool {
	return p.Kind == kindFrag || p.Kind == kindChunk || p.Kind == kindPack
}

// decodeRest reads what follows the header: extras first, then the payload.
func (p *Packet) decodeRest(extras, payload []byte) error {
	bad := false
	if p.Kind == kindChunk {
		p.decodeChunk(extras)
		end := uint64(p.Offset) + uint64(len(payload))
		bad = end > uint64(p.Size) || len(payload) == 0 || !p.onGrid(uint32(len(payload)))
		extras = extras[16:]
	}
	if p.Flags&flagPut != 0 {
		p.Handle, p.PutOffset = le.Uint64(extras), le.Uint64(extras[8:])
		bad = bad || p.PutOffset > math.MaxUint64-uint64(len(payload))
		extras = extras[16:]
	}
	if p.Flags&flagOp != 0 {
		p.Op, p.OpCode, p.OpNotice = le.Uint32(extras), extras[4], extras[5]
		bad = bad || le.Uint16(extras[6:]) != 0 || !p.operates(len(payload))
	}
	switch p.Kind {
	case kindFrag:
		bad = bad || p.Tag >= 0xF0 && len(payload) != 0 &&
			(p.Tag != tagBye || len(payload) != 2 || le.Uint16(payload) == 0)
		p.Payload = payload
	case kindChunk:
		p.Payload = payload
	case kindHello, kindHelloAck:
		if len(payload) < helloBytes {
			return fmt.Errorf("%w: short Hello", errNoPacket)
		}
		p.Hello = decodeHello(payload)
		bad = !p.Hello.valid()
	case kindRetry:
		p.Retry = decodeRetry(payload)
		bad = p.Retry == nil
	case kindReject:
		if len(payload) != 12 {
			return fmt.Errorf("%w: Reject's length", errNoPacket)
		}
		p.VersionMin, p.VersionMax = payload[0], payload[1]
		p.Code, p.Nonce = le.Uint16(payload[2:]), le.Uint64(payload[4:])
		bad = p.VersionMin < 1 || p.VersionMax < p.VersionMin || p.VersionMax > 15 ||
			p.Code != 0 && p.Tag != 4 && p.Tag != 5
	case kindPack:
		var err error
		if p.Records, err = decodeRecords(payload); err != nil {
			return err
		}
	case kindNack:
		record := p.Tag == nackRecord
		bad = record && (len(payload) != 1 || payload[0] >= 0xF0) || !record && len(payload) != 0
		p.Payload = payload
	case kindPart:
		bad = len(payload) <= 8 || !inDatagram(le.Uint32(payload), le.Uint32(payload[4:]),
			uint32(len(payload)-8))
		p.Payload = payload
	case kindPing, kindPong:
		bad = len(payload) < 8 || p.Kind == kindPong && len(payload) != 8 || !zero(payload[8:])
		p.Payload = payload
	default:
		bad = !p.sackFits(payload)
		p.Payload = payload
	}
	if bad {
		return fmt.Errorf("%w: value out of range", errNoPacket)
	}
	return nil
}

// operates says whether a packet with the Op flag is one of an operation.
func (p *Packet) operates(length int) bool {
	const part, notice, placed, get, atomic, result, failed = 1, 2, 3, 4, 5, 6, 7
	lengths := map[uint8][2]int{
		part: {0, 65535}, notice: {4, 68}, placed: {0, 65535}, get: {32, 32}, atomic: {40, 40},
		result: {8, 8}, failed: {1, 1},
	}
	n, ok := lengths[p.OpCode]
	put := p.OpCode == part || p.OpCode == placed
	tagged := p.OpCode == notice || p.OpCode == placed
	return ok && put == (p.Flags&flagPut != 0) && (p.Kind == kindFrag || p.OpCode == part) &&
		(p.Tag == 0 || tagged && p.Tag < 0xF0) && length >= max(n[0], int(p.OpNotice)) &&
		length <= n[1] && (p.OpNotice == 0 || p.OpCode == placed && p.OpNotice <= 64)
}

// inDatagram says whether n bytes from offset on are a part of a packet of total bytes.
func inDatagram(offset, total, n uint32) bool {
	return total > headerBytes && total < 1<<16 && offset < total && n < total && n <= total-offset &&
		offset%64 == 0 && (n%64 == 0 || offset+n == total)
}

// onGrid says whether a chunk lies where its own grid wants; a put has none.
func (p *Packet) onGrid(n uint32) bool {
	if p.Flags&flagPut != 0 {
		return p.First == 0 && p.Grid == 0
	}
	first, grid := uint32(p.First), uint32(p.Grid)
	switch {
	case first == 0 || first > p.Size || grid < chunkBytesMin:
		return false
	case p.Offset == 0:
		return n == first
	}
	return p.Offset >= first && p.Offset < p.Size && (p.Offset-first)%grid == 0 &&
		n == min(grid, p.Size-p.Offset)
}

// sackFits says whether an Ack may have that payload: none, or what the Sack flag announces.
func (p *Packet) sackFits(payload []byte) bool {
	if p.Flags&flagSack == 0 {
		return len(payload) == 0
	}
	ranges := len(payload) - sackHeadBytes
	if ranges < 0 || ranges%4 != 0 || ranges > 4*sackRangesMax || payload[20] > 1 ||
		!zero(payload[21:24]) {
		return false
	}
	behind := -1
	for at := sackHeadBytes; at < len(payload); at += 4 {
		start, more := int(le.Uint16(payload[at:])), int(le.Uint16(payload[at+2:]))
		if start <= behind || start+more > 65535 {
			return false
		}
		behind = start + more + 1
	}
	return true
}

// decodeHello returns nil if it is malformed.
func decodeHello(b []byte) *Hello {
	h := &Hello{
		Incarnation: le.Uint64(b), Tag: le.Uint64(b[8:]), Expected: le.Uint64(b[16:]),
		Nonce: le.Uint64(b[24:]), Features: le.Uint64(b[32:]), Required: le.Uint64(b[40:]),
		WindowPackets: le.Uint32(b[48:]), FragmentBytesMax: le.Uint32(b[52:]),
		AckDelayUs: le.Uint32(b[56:]), MTUBytes: le.Uint16(b[60:]), CommandBytes: le.Uint16(b[62:]),
		Credit: le.Uint16(b[64:]), VersionMin: b[66], VersionMax: b[67], Channel: b[68],
		Proven: b[69], Overhead: b[70],
	}
	if b[71] != 0 {
		return nil
	}
	to := []*[]byte{&h.CommandName, &h.DataName, &h.CommandCookie, &h.DataCookie, &h.Label}
	most := []int{addrBytesMax, addrBytesMax, 32, 32, 32}
	last := 0
	for b = b[helloBytes:]; len(b) > 0; {
		if len(b) < 2 || len(b) < 2+int(b[1]) || int(b[0]&0x7F) <= last {
			return nil
		}
		last = int(b[0] & 0x7F)
		value := bytes.Clone(b[2 : 2+int(b[1])])
		if last <= len(to) {
			if b[0]&0x80 != 0 || len(value) == 0 || len(value) > most[last-1] {
				return nil
			}
			*to[last-1] = value
		} else {
			h.Others = append(append(h.Others, b[0], b[1]), value...)
		}
		b = b[2+len(value):]
	}
	return h
}

func (h *Hello) valid() bool {
	return h != nil && h.Incarnation != 0 && h.Tag != 0 && h.Required&^h.Features == 0 &&
		h.WindowPackets >= 1 && h.WindowPackets <= 65536 && h.FragmentBytesMax != 0 &&
		h.MTUBytes >= 256 && h.CommandBytes >= 256 && h.AckDelayUs <= 1000000 &&
		h.VersionMin >= 1 && h.VersionMin <= version && h.VersionMax >= version &&
		h.VersionMax <= 15 && h.Channel < 2 && h.Proven <= provenAll && h.Overhead <= 64
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// Name is a module's name, section 10.
type Name struct {
	Provider               string
	Command, Data          []byte
	Incarnation            uint64
	MTUBytes, CommandBytes uint16
}

// Encode returns the name's bytes.
func (n *Name) Encode() []byte {
	b := []byte{1, uint8(len(n.Provider)), uint8(len(n.Command)), uint8(len(n.Data))}
	b = le.AppendUint64(b, n.Incarnation)
	b = le.AppendUint16(b, n.MTUBytes)
	b = le.AppendUint16(b, n.CommandBytes)
	b = append(b, n.Provider...)
	b = append(b, n.Command...)
	return append(b, n.Data...)
}

// DecodeName reads a module's name.
func DecodeName(b []byte) (*Name, error) {
	if len(b) < 16 || b[0] != 1 || len(b) != 16+int(b[1])+int(b[2])+int(b[3]) ||
		min(b[1], b[2], b[3]) < 1 || max(b[1], b[2], b[3]) > addrBytesMax {
		return nil, errors.New("no module name: length")
	}
	n := &Name{
		Incarnation: le.Uint64(b[4:]), MTUBytes: le.Uint16(b[12:]), CommandBytes: le.Uint16(b[14:]),
	}
	if n.Incarnation == 0 || n.MTUBytes < 256 || n.CommandBytes < 256 {
		return nil, errors.New("no module name: value out of range")
	}
	rest := b[16:]
	n.Provider, rest = string(rest[:b[1]]), rest[b[1]:]
	n.Command, n.Data = bytes.Clone(rest[:b[2]]), bytes.Clone(rest[b[2]:])
	for _, c := range []byte(n.Provider) {
		if c <= ' ' || c > '~' {
			return nil, errors.New("no module name: provider")
		}
	}
	return n, nil
}
