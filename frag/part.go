package frag

import (
	"errors"
	"fmt"
	"math/bits"

	"gobtl/internal/seq"
)

// If the path no longer carries datagrams of a packet's size, the sender retransmits the packet in
// slices, which are packets of the kind Part. Each Part carries the sequence number of the original
// packet and a slice of its datagram. The first slice begins with the header of the original
// packet. The receiver reassembles the datagram from the slices, and then processes the datagram as
// if it had arrived as one packet.
//
//	| offsetBytes u32 | totalBytes u32 | bytes of the datagram, from offsetBytes on |
//	|=================|================|============================================|
//
// The receiver may combine slices from two or more transmissions of the same datagram. Two
// transmissions of a datagram differ only in the first 32 bytes, which are always in the same
// slice.

// The constants below are sizes of Parts (slices of a datagram), in bytes.
const (
	PartHeaderBytes = FragHeaderBytes + partHeadBytes // header and head, before the slice
	PartGrain       = 64                              // offsets are multiples of PartGrain
	PartTotalMax    = 1 << 16                         // largest datagram in slices, plus one byte

	partHeadBytes = 8
	partBlocks    = PartTotalMax / PartGrain
)

// PartsOf returns the number of Parts of at most mtuBytes into which a packet of sizeBytes is
// divided, and the length of the slice in each of these Parts except the last one. The argument
// mtuBytes must be large enough for a Part with a slice of PartGrain bytes.
func PartsOf(sizeBytes, mtuBytes int) (count, slice int) {
	room := PartRoom(mtuBytes)
	count = (sizeBytes + room - 1) / room
	slice = (sizeBytes + count - 1) / count
	slice = (slice + PartGrain - 1) / PartGrain * PartGrain
	return (sizeBytes + slice - 1) / slice, slice
}

// PartRoom returns the length of the longest slice that fits in a Part of sizeBytes and is a
// multiple of PartGrain. PartRoom returns 0 if no slice fits.
func PartRoom(sizeBytes int) int {
	return max(0, (sizeBytes-PartHeaderBytes)/PartGrain*PartGrain)
}

// PutPart writes the header of a Part and the position of its slice at the start of b, and returns
// their length, PartHeaderBytes. The caller sets the fields Conn, Number and Seq of the header h,
// and PutPart sets all remaining fields of h. After the header of the Part, the caller must write
// the slice, which is sliceBytes long.
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

// ReadPart decodes the payload of a Part that Decode has accepted. ReadPart returns the slice, its
// offset in the datagram, and the datagram's length.
func ReadPart(payload []byte) (offsetBytes, totalBytes int, slice []byte) {
	return int(le.Uint32(payload)), int(le.Uint32(payload[4:])), payload[partHeadBytes:]
}

// checkPart checks the payload of a Part. Each slice must be shorter than its datagram. The length
// of each slice, except the last slice of a datagram, must be a multiple of PartGrain.
func checkPart(p []byte) error {
	offset, total := uint64(le.Uint32(p)), uint64(le.Uint32(p[4:]))
	n := uint64(len(p) - partHeadBytes)
	if total <= FragHeaderBytes || total >= PartTotalMax || n == 0 || n >= total ||
		offset%PartGrain != 0 || offset+n > total || n%PartGrain != 0 && offset+n != total {
		return ErrBounds
	}
	return nil
}

// ErrParts means that there is no memory to reassemble one more datagram from slices. After
// ErrParts, the caller may repeat the call of Add with the same Part later.
var ErrParts = errors.New("frag: no memory for another datagram in Parts")

// partsMax is the largest number of incomplete datagrams of one peer.
const partsMax = 32

// PartPool limits the memory that the incomplete datagrams from all peers of a module take
// together.
type PartPool struct {
	bytesMax, bytes int
}

// NewPartPool returns a PartPool with a limit of bytesMax bytes. Slices of the next packet in
// sequence are exempt from the memory limit of a PartPool, because slices of later packets could
// otherwise block the next packet for ever.
func NewPartPool(bytesMax int) *PartPool { return &PartPool{bytesMax: bytesMax} }

// Bytes returns the memory, in bytes, that the incomplete datagrams of all peers take.
func (p *PartPool) Bytes() int { return p.bytes }

// Parts reassembles those datagrams from one peer that arrive in slices. Parts allocates memory
// only for bytes that have arrived. A zero Parts must not be used before a call of Init.
type Parts struct {
	pool *PartPool
	list []*partial // unordered
}

// partial is an incomplete datagram.
type partial struct {
	seq    seq.Num
	began  int64 // when the first slice arrived
	total  int
	blocks int // blocks that have arrived
	bytes  int
	have   [partBlocks / 64]uint64
	pieces []piece
}

// The type "piece" holds consecutive received bytes of a datagram, starting at the given offset.
type piece struct {
	offset int
	data   []byte
}

// Init makes a zero Parts ready for use with a pool.
func (a *Parts) Init(pool *PartPool) { a.pool = pool }

// Active returns the number of incomplete datagrams.
func (a *Parts) Active() int { return len(a.list) }

// Add stores those bytes of a received Part that had not arrived before. If the Part completes its
// datagram, Add appends the datagram to the slice "dst" and returns the extended slice. The
// argument inOrder of Add says whether the packet is the next in sequence from the peer. The
// argument "now" of Add is the present time, in the same unit as the argument of Expire. If Add
// returns the error ErrParts, it has stored no byte of the Part.
func (a *Parts) Add(h *Header, payload []byte, inOrder bool, now int64, dst []byte) (
	[]byte, error,
) {
	offset, total, slice := ReadPart(payload)
	p := a.find(h.Seq)
	if p != nil && p.total != total { // a new packet has replaced the packet
		a.remove(p)
		p = nil
	}
	if p == nil && !a.place(h.Seq) || !a.room(h.Seq, len(slice)) && !inOrder {
		return nil, ErrParts
	}
	if p == nil {
		p = &partial{seq: h.Seq, began: now, total: total}
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

// The method "add" stores a slice. The method "add" skips those blocks of PartGrain bytes that have
// already arrived.
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

func (a *Parts) find(n seq.Num) *partial {
	for _, p := range a.list {
		if p.seq == n {
			return p
		}
	}
	return nil
}

// The method "place" makes room for datagram n in the list of incomplete datagrams, and reports
// whether it succeeded. If the list of incomplete datagrams is full, the method "place" discards
// the datagram with the highest sequence number above n, because datagrams with lower numbers are
// needed first.
func (a *Parts) place(n seq.Num) bool {
	return len(a.list) < partsMax || a.evict(n)
}

// The method "room" makes sure that the pool has memory for sizeBytes more of datagram n, and
// reports whether it succeeded. If the pool has too little memory, the method "room" discards
// incomplete datagrams with sequence numbers above n.
func (a *Parts) room(n seq.Num, sizeBytes int) bool {
	for a.pool.bytes+sizeBytes > a.pool.bytesMax {
		if !a.evict(n) {
			return false
		}
	}
	return true
}

// The method "evict" discards the incomplete datagram with the highest sequence number above n. The
// method "evict" reports whether it has found an incomplete datagram with a sequence number above
// n.
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

// Sweep calls the function "keep" with the sequence number of each incomplete datagram. If the
// function "keep" returns false, for example because the whole packet has arrived, Sweep discards
// the datagram's slices.
func (a *Parts) Sweep(keep func(seq.Num) bool) {
	a.discard(func(p *partial) bool { return !keep(p.seq) })
}

// Expire discards each incomplete datagram whose first slice arrived at the time "since" or
// earlier. If the sender still needs to deliver a datagram that Expire has discarded, the sender
// sends all slices of the datagram again.
func (a *Parts) Expire(since int64) {
	a.discard(func(p *partial) bool { return p.began <= since })
}

// Drop discards all incomplete datagrams when the connection to the peer has ended. After Drop, the
// caller may use the Parts for a new peer.
func (a *Parts) Drop() { a.discard(func(*partial) bool { return true }) }

func (a *Parts) discard(which func(*partial) bool) {
	for i := len(a.list) - 1; i >= 0; i-- {
		if p := a.list[i]; which(p) {
			a.remove(p)
		}
	}
}

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

// Check returns the number of stored bytes, and an error for the first invariant of Parts that does
// not hold, or nil if all of them hold.
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
