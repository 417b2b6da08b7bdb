package frag

import (
	"errors"
	"fmt"
	"math/bits"

	"gobtl/internal/seq"
)

// A packet that the path does not carry any more is sent again as Parts: each has a slice of the
// datagram as it was, header and all, and its sequence number. The receiver puts them together and
// takes the whole as if it had come in one piece.
//
//	payload of a Part: offsetBytes u32, totalBytes u32, then bytes offset.. of the datagram
//
// The slices of different copies of a datagram may be mixed: they differ in nothing but what the
// first 32 bytes say of the sender (number, ack, credits), and those are of one block.

// Sizes of Parts, in bytes.
const (
	PartHeaderBytes = FragHeaderBytes + partHeadBytes // before the slice
	PartGrain       = 64                              // offsets are multiples of it
	PartTotalMax    = 1 << 16                         // of the datagram, less one

	partHeadBytes = 8
	partBlocks    = PartTotalMax / PartGrain
)

// PartRoom is the largest slice of a datagram, but for its last one, that a Part of at most
// sizeBytes has room for; 0 if there is none.
func PartRoom(sizeBytes int) int {
	return max(0, (sizeBytes-PartHeaderBytes)/PartGrain*PartGrain)
}

// PutPart writes header and head of a Part at the start of b and returns their length,
// PartHeaderBytes. Of h Conn, Number and Seq count, and PutPart sets the others. sliceBytes of the
// datagram are to follow.
func PutPart(b []byte, h *Header, offsetBytes, totalBytes, sliceBytes int) int {
	*h = Header{
		Kind: KindPart, Conn: h.Conn, Number: h.Number, Seq: h.Seq,
		PayloadLen: uint16(partHeadBytes + sliceBytes),
	}
	n := h.Encode(b)
	le.PutUint32(b[n:], uint32(offsetBytes))
	le.PutUint32(b[n+4:], uint32(totalBytes))
	return n + partHeadBytes
}

// ReadPart reads the payload of a Part as Decode returned it: which bytes of how large a datagram.
func ReadPart(payload []byte) (offsetBytes, totalBytes int, slice []byte) {
	return int(le.Uint32(payload)), int(le.Uint32(payload[4:])), payload[partHeadBytes:]
}

// checkPart checks the payload of a Part: a slice of whole blocks, or the last one, that is not all
// of the datagram.
func checkPart(p []byte) error {
	offset, total := uint64(le.Uint32(p)), uint64(le.Uint32(p[4:]))
	n := uint64(len(p) - partHeadBytes)
	if total <= FragHeaderBytes || total >= PartTotalMax || n == 0 || n >= total ||
		offset%PartGrain != 0 || offset+n > total || n%PartGrain != 0 && offset+n != total {
		return ErrBounds
	}
	return nil
}

// ErrParts: there is no room to put another datagram together. The same Part may be taken later.
var ErrParts = errors.New("frag: no memory for another datagram in Parts")

// partsMax bounds the datagrams that one peer has under way in Parts.
const partsMax = 32

// PartPool bounds what all peers of a module have under way in Parts.
type PartPool struct {
	bytesMax, bytes int
}

// NewPartPool returns a pool of at most so many bytes. A peer has beyond that what belongs to the
// packet which is next in order: else others could hold it up for ever.
func NewPartPool(bytesMax int) *PartPool { return &PartPool{bytesMax: bytesMax} }

// Bytes is what is kept.
func (p *PartPool) Bytes() int { return p.bytes }

// Parts puts the datagrams of one peer together. It keeps nothing but what has arrived. The zero
// value must be given a pool with Init.
type Parts struct {
	pool *PartPool
	list []*partial // unordered
}

// partial is a datagram that is not whole.
type partial struct {
	seq    seq.Num
	total  int
	blocks int // that have come
	bytes  int
	have   [partBlocks / 64]uint64
	pieces []piece
}

// piece is bytes of a datagram, from an offset on.
type piece struct {
	offset int
	data   []byte
}

// Init makes the zero value ready.
func (a *Parts) Init(pool *PartPool) { a.pool = pool }

// Active is the number of datagrams under way.
func (a *Parts) Active() int { return len(a.list) }

// Add takes the Part with header h and its payload, as Decode returned them, and copies what of it
// is new. When that makes its datagram whole, it is appended to dst and returned. inOrder says that
// the packet is the next one of the peer's sequence. ErrParts: the Part was not taken.
func (a *Parts) Add(h *Header, payload []byte, inOrder bool, dst []byte) ([]byte, error) {
	offset, total, slice := ReadPart(payload)
	p := a.find(h.Seq)
	if p != nil && p.total != total { // the packet was replaced
		a.remove(p)
		p = nil
	}
	if p == nil && !a.place(h.Seq) || !a.room(h.Seq, len(slice)) && !inOrder {
		return nil, ErrParts
	}
	if p == nil {
		p = &partial{seq: h.Seq, total: total}
		a.list = append(a.list, p)
	}
	p.add(a.pool, offset, slice)
	if p.blocks*PartGrain < total {
		return nil, nil
	}
	from := len(dst)
	dst = append(dst, make([]byte, total)...)
	for _, s := range p.pieces {
		copy(dst[from+s.offset:], s.data)
	}
	a.remove(p)
	return dst, nil
}

// add copies the blocks that are new.
func (p *partial) add(pool *PartPool, offset int, slice []byte) {
	first, last := offset/PartGrain, (offset+len(slice)+PartGrain-1)/PartGrain
	for b := first; b < last; {
		from := b
		for b < last && p.have[b>>6]&(1<<(b&63)) == 0 {
			p.have[b>>6] |= 1 << (b & 63)
			b++
		}
		if b > from {
			lo, hi := from*PartGrain-offset, min(b*PartGrain-offset, len(slice))
			p.pieces = append(p.pieces, piece{from * PartGrain, append([]byte(nil), slice[lo:hi]...)})
			p.blocks += b - from
			p.bytes += hi - lo
			pool.bytes += hi - lo
		} else {
			b++
		}
	}
}

// find returns the datagram of a number, or nil.
func (a *Parts) find(n seq.Num) *partial {
	for _, p := range a.list {
		if p.seq == n {
			return p
		}
	}
	return nil
}

// place makes a place for another datagram, if need be that of the last one in the sequence: the
// first ones must get on, for all others wait for them.
func (a *Parts) place(n seq.Num) bool {
	return len(a.list) < partsMax || a.evict(n)
}

// room makes room for more bytes of a datagram, likewise.
func (a *Parts) room(n seq.Num, sizeBytes int) bool {
	for a.pool.bytes+sizeBytes > a.pool.bytesMax {
		if !a.evict(n) {
			return false
		}
	}
	return true
}

// evict throws the last datagram in the sequence away; false if none is behind number n.
func (a *Parts) evict(n seq.Num) bool {
	var last *partial
	for _, p := range a.list {
		if n.Before(p.seq) && (last == nil || last.seq.Before(p.seq)) {
			last = p
		}
	}
	if last == nil {
		return false
	}
	a.remove(last)
	return true
}

// Sweep throws away what keep does not want: datagrams that have come otherwise.
func (a *Parts) Sweep(keep func(seq.Num) bool) {
	for i := len(a.list) - 1; i >= 0; i-- {
		if p := a.list[i]; !keep(p.seq) {
			a.remove(p)
		}
	}
}

// Drop throws everything away: the peer is gone. More may come.
func (a *Parts) Drop() { a.Sweep(func(seq.Num) bool { return false }) }

func (a *Parts) remove(p *partial) {
	a.pool.bytes -= p.bytes
	for i := range a.list {
		if a.list[i] == p {
			last := len(a.list) - 1
			a.list[i], a.list[last] = a.list[last], nil
			a.list = a.list[:last]
			break
		}
	}
	if len(a.list) == 0 {
		a.list = nil
	}
}

// Check reports the first broken invariant, and returns the bytes kept. It is for tests and
// simulators.
func (a *Parts) Check() (sizeBytes int, err error) {
	if len(a.list) > partsMax {
		return 0, fmt.Errorf("frag: %d datagrams in Parts", len(a.list))
	}
	for i, p := range a.list {
		blocks, n := 0, 0
		for _, w := range p.have {
			blocks += bits.OnesCount64(w)
		}
		for _, s := range p.pieces {
			n += len(s.data)
		}
		if blocks != p.blocks || n != p.bytes || n > p.total || n == p.total ||
			a.find(p.seq) != a.list[i] {
			return 0, fmt.Errorf("frag: datagram %d in Parts: %d of %d bytes, %d counted, %d of %d blocks",
				p.seq, n, p.total, p.bytes, p.blocks, blocks)
		}
		sizeBytes += n
	}
	return sizeBytes, nil
}
