package stranger

import (
	"encoding/binary"
	"errors"
)

// The constants below are the kinds of section 3.
const (
	kFrag = iota + 1
	kChunk
	kAck
	kHello
	kHelloAck
	kNack
	kReject
	kPack
	kPart
	kPing
	kPong
	kRetry
)

// The constants below are the flags and marks of section 3.
const (
	fAck   = 0x01
	fPut   = 0x02
	fDup   = 0x04
	fSack  = 0x08
	fOp    = 0x10
	fAsk   = 0x20
	fLater = 0x80

	tagBye  = 0xFF
	tagVoid = 0xFE
	tagTop  = 0xEF
)

var errNoPacket = errors.New("no packet")

var le = binary.LittleEndian

// flagsOf holds the flags that each kind may have.
var flagsOf = [16]byte{
	kFrag: fAck | fDup | fPut | fOp | fLater, kChunk: fAck | fDup | fPut | fOp,
	kAck: fAck | fDup | fSack | fAsk, kNack: fAck | fDup, kPack: fAck | fDup,
}

type packet struct {
	kind, flags, tag    byte
	conn                uint64
	number, seq, ack    uint32
	credit, creditBytes uint16
	chunk               *chunk
	put                 *put
	op                  *op
	payload             []byte   // Frag, Chunk, Nack
	records             []record // Pack
	sack                *sack
	hello               *hello // Hello, HelloAck
	retry               *retry
	reject              *reject
	part                *part
	nonce               uint64 // Ping, Pong
	padding             int    // Ping
}

type chunk struct {
	fragID, size, offset uint32
	first, each          uint16
}

type put struct{ handle, offset uint64 }

type op struct {
	operation uint32
	code      byte
	notice    byte
}

type record struct {
	tag   byte
	piece *chunk
	data  []byte
}

type sack struct {
	delayUs, unreadUs               uint16
	copies, last, lastNumber, marks uint32
	lastData                        byte
	ranges                          [][2]uint16
}

type part struct {
	offset, total uint32
	slice         []byte
}

// checker is shared by the checks of section 2, and remembers whether one of them has failed.
type checker struct{ bad bool }

func (c *checker) must(ok bool) {
	if !ok {
		c.bad = true
	}
}

func decode(b []byte) (*packet, error) {
	if len(b) < 32 || b[0] != 0xB7 || b[1]>>4 != 2 || b[31] != 0 {
		return nil, errNoPacket
	}
	p := &packet{
		kind: b[1] & 15, flags: b[2], tag: b[3], conn: le.Uint64(b[4:]),
		number: le.Uint32(b[12:]), seq: le.Uint32(b[16:]), ack: le.Uint32(b[20:]),
		credit: le.Uint16(b[26:]), creditBytes: le.Uint16(b[28:]),
	}
	extras := int(b[30]) * 4
	if len(b) != 32+extras+int(le.Uint16(b[24:])) {
		return nil, errNoPacket
	}
	var c checker
	c.must(p.kind >= kFrag && p.kind <= kRetry)
	c.must(p.flags&^flagsOf[p.kind] == 0)
	c.must(p.flags&fDup == 0 || p.flags&fAck != 0)
	c.must(p.flags&fLater == 0 || p.flags&fAck != 0 && p.tag <= tagTop)
	c.must(p.kind != kAck || p.flags&fAck != 0)
	c.must(p.flags&fAck != 0 || p.ack == 0 && p.credit == 0 && p.creditBytes == 0)
	c.must(p.conn != 0 || p.kind == kHello)
	c.must(p.number == 0 || p.conn != 0 && p.kind != kReject && p.kind != kRetry)
	if c.bad || !p.decodeExtras(b[32:32+extras], len(b)-32-extras) {
		return nil, errNoPacket
	}
	if !p.decodeBody(b[32+extras:]) {
		return nil, errNoPacket
	}
	return p, nil
}

func (p *packet) decodeExtras(b []byte, payload int) bool {
	want := 0
	if p.kind == kChunk {
		want += 16
	}
	if p.flags&fPut != 0 {
		want += 16
	}
	if p.flags&fOp != 0 {
		want += 8
	}
	if len(b) != want {
		return false
	}
	if p.kind == kChunk {
		p.chunk, b = decodeChunk(b), b[16:]
	}
	if p.flags&fPut != 0 {
		p.put, b = &put{le.Uint64(b), le.Uint64(b[8:])}, b[16:]
	}
	if p.flags&fOp != 0 {
		p.op = &op{le.Uint32(b), b[4], b[5]}
		if b[6] != 0 || b[7] != 0 {
			return false
		}
	}
	return p.put == nil || p.put.offset+uint64(payload) >= p.put.offset
}

func decodeChunk(b []byte) *chunk {
	return &chunk{
		le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint16(b[12:]),
		le.Uint16(b[14:]),
	}
}

// onGrid checks by section 4 whether a chunk of n bytes lies on its grid.
func (c *chunk) onGrid(n int) bool {
	first, each, at, size := uint64(c.first), uint64(c.each), uint64(c.offset), uint64(c.size)
	if n < 1 || first < 1 || first > size || each < 128 {
		return false
	}
	if at == 0 {
		return uint64(n) == first
	}
	return at >= first && at < size && (at-first)%each == 0 && uint64(n) == min(each, size-at)
}

func (p *packet) decodeBody(b []byte) bool {
	switch p.kind {
	case kFrag:
		p.payload = b
		return p.fragFits()
	case kChunk:
		p.payload = b
		if p.put == nil {
			return p.tag <= tagTop && p.op == nil && p.chunk.onGrid(len(b))
		}
		end := uint64(p.chunk.offset) + uint64(len(b))
		return p.tag == 0 && len(b) > 0 && p.chunk.first == 0 && p.chunk.each == 0 &&
			end <= uint64(p.chunk.size) && (p.op == nil || p.op.code == 1 && p.op.notice == 0)
	case kAck:
		return p.tag == 0 && (p.seq == 0 || p.flags&fAsk != 0) && p.decodeSack(b)
	case kHello, kHelloAck:
		return p.tag == 0 && p.decodeHello(b)
	case kNack:
		p.payload = b
		if p.tag == 3 {
			return len(b) == 1 && b[0] <= tagTop
		}
		return p.tag >= 1 && p.tag <= 6 && len(b) == 0
	case kReject:
		return p.seq == 0 && p.decodeReject(b)
	case kPack:
		return p.tag == 0 && p.decodePack(b)
	case kPart:
		return p.tag == 0 && p.decodePart(b)
	case kPing, kPong:
		return p.tag == 0 && p.seq == 0 && p.decodePing(b)
	case kRetry:
		return p.tag == 0 && p.seq == 0 && p.decodeRetry(b)
	}
	return false
}

func (p *packet) fragFits() bool {
	n := len(p.payload)
	switch {
	case p.op != nil:
		return p.opFits(n)
	case p.put != nil:
		return p.tag == 0
	case p.tag == tagBye:
		return n == 0 || n == 2 && le.Uint16(p.payload) != 0
	case p.tag == tagVoid:
		return n == 0
	}
	return p.tag <= tagTop
}

// opFits is the table of section 18.
func (p *packet) opFits(n int) bool {
	o := p.op
	if o.code != 3 && o.notice != 0 {
		return false
	}
	with, tagged := p.put != nil, p.tag <= tagTop
	switch o.code {
	case 1:
		return with && p.tag == 0
	case 2:
		return !with && tagged && n >= 4 && n <= 68
	case 3:
		return with && tagged && o.notice <= 64 && n >= int(o.notice)
	case 4:
		return !with && p.tag == 0 && n == 32
	case 5:
		return !with && p.tag == 0 && n == 40
	case 6:
		return !with && p.tag == 0 && n == 8
	case 7:
		return !with && p.tag == 0 && n == 1
	}
	return false
}

func (p *packet) decodeSack(b []byte) bool {
	if p.flags&fSack == 0 {
		return len(b) == 0
	}
	if len(b) < 24 || len(b) > 24+4*256 || len(b)%4 != 0 {
		return false
	}
	p.sack = &sack{
		delayUs: le.Uint16(b), unreadUs: le.Uint16(b[2:]), copies: le.Uint32(b[4:]),
		last: le.Uint32(b[8:]), lastNumber: le.Uint32(b[12:]), marks: le.Uint32(b[16:]),
		lastData: b[20],
	}
	ok, next := b[20] <= 1 && b[21] == 0 && b[22] == 0 && b[23] == 0, 0
	for b = b[24:]; len(b) > 0; b = b[4:] {
		start, more := int(le.Uint16(b)), int(le.Uint16(b[2:]))
		ok = ok && start >= next && start+more <= 65535
		next = start + more + 2
		p.sack.ranges = append(p.sack.ranges, [2]uint16{uint16(start), uint16(more)})
	}
	return ok
}

func (p *packet) decodePack(b []byte) bool {
	for len(b) > 0 {
		if len(b) < 4 {
			return false
		}
		r, n := record{tag: b[0]}, int(le.Uint16(b[2:]))
		piece := b[1] == 1
		if b[0] > tagTop || b[1] > 1 || len(b) < 4+n || piece && n < 17 {
			return false
		}
		r.data, b = b[4:4+n], b[4+n:]
		if piece {
			r.piece, r.data = decodeChunk(r.data), r.data[16:]
			if !r.piece.onGrid(len(r.data)) {
				return false
			}
		}
		p.records = append(p.records, r)
	}
	return piecesFit(p.records)
}

// piecesFit checks by section 4 that only the first record is an end, and only the last one a
// beginning, of a fragment.
func piecesFit(rs []record) bool {
	if len(rs) == 0 {
		return false
	}
	for i := 1; i < len(rs)-1; i++ {
		if rs[i].piece != nil {
			return false
		}
	}
	a, z := rs[0].piece, rs[len(rs)-1].piece
	if len(rs) == 1 || a == nil || z == nil {
		return true
	}
	ends := uint64(a.offset)+uint64(len(rs[0].data)) == uint64(a.size)
	return ends && a.fragID != z.fragID && z.offset == 0
}

func (p *packet) decodePart(b []byte) bool {
	if len(b) < 9 {
		return false
	}
	p.part = &part{le.Uint32(b), le.Uint32(b[4:]), b[8:]}
	n, at, all := uint64(len(b)-8), uint64(p.part.offset), uint64(p.part.total)
	return at%64 == 0 && all >= 33 && all <= 65535 && at+n <= all && n < all &&
		(n%64 == 0 || at+n == all)
}

func (p *packet) decodePing(b []byte) bool {
	if len(b) < 8 || p.kind == kPong && len(b) != 8 {
		return false
	}
	p.nonce, p.padding = le.Uint64(b), len(b)-8
	for _, v := range b[8:] {
		if v != 0 {
			return false
		}
	}
	return true
}

// encode encodes a packet completely.
func (p *packet) encode() []byte {
	var x, body []byte
	if p.chunk != nil {
		x = p.chunk.append(x)
	}
	if p.put != nil {
		x = le.AppendUint64(le.AppendUint64(x, p.put.handle), p.put.offset)
	}
	if p.op != nil {
		x = append(le.AppendUint32(x, p.op.operation), p.op.code, p.op.notice, 0, 0)
	}
	body = p.body()
	b := []byte{0xB7, 0x20 | p.kind, p.flags, p.tag}
	b = le.AppendUint64(b, p.conn)
	for _, v := range []uint32{p.number, p.seq, p.ack} {
		b = le.AppendUint32(b, v)
	}
	for _, v := range []uint16{uint16(len(body)), p.credit, p.creditBytes} {
		b = le.AppendUint16(b, v)
	}
	b = append(b, byte(len(x)/4), 0)
	return append(append(b, x...), body...)
}

func (c *chunk) append(b []byte) []byte {
	for _, v := range []uint32{c.fragID, c.size, c.offset} {
		b = le.AppendUint32(b, v)
	}
	return le.AppendUint16(le.AppendUint16(b, c.first), c.each)
}

func (p *packet) body() (b []byte) {
	switch p.kind {
	case kAck:
		if s := p.sack; s != nil {
			b = le.AppendUint16(le.AppendUint16(b, s.delayUs), s.unreadUs)
			for _, v := range []uint32{s.copies, s.last, s.lastNumber, s.marks} {
				b = le.AppendUint32(b, v)
			}
			b = append(b, s.lastData, 0, 0, 0)
			for _, r := range s.ranges {
				b = le.AppendUint16(le.AppendUint16(b, r[0]), r[1])
			}
		}
		return b
	case kHello, kHelloAck:
		return p.hello.body()
	case kRetry:
		return p.retry.body()
	case kReject:
		return p.reject.body()
	case kPing, kPong:
		return append(le.AppendUint64(b, p.nonce), make([]byte, p.padding)...)
	case kPart:
		b = le.AppendUint32(le.AppendUint32(b, p.part.offset), p.part.total)
		return append(b, p.part.slice...)
	case kPack:
		for _, r := range p.records {
			b = r.append(b)
		}
		return b
	}
	return p.payload
}

func (r *record) append(b []byte) []byte {
	if r.piece == nil {
		return append(le.AppendUint16(append(b, r.tag, 0), uint16(len(r.data))), r.data...)
	}
	b = le.AppendUint16(append(b, r.tag, 1), uint16(len(r.data)+16))
	return append(r.piece.append(b), r.data...)
}
