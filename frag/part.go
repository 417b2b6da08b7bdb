package frag

import (
	"errors"
	"fmt"
	"math/bits"

	"gobtl/internal/seq"
)

// If a packet has become too large for the path, the sender retransmits the packet in slices, which
// are packets of the kind Part. Each Part has a slice of the original datagram, including the
// datagram's header, and the sequence number of the packet. The receiver reassembles the datagram
// from the slices, and then processes the datagram as if it had arrived as one packet.
//
//	payload of a Part: offsetBytes u32, totalBytes u32, then bytes offset.. of the datagram
//
// Slices of different transmissions of a datagram may be mixed. Two transmissions of a
// datagram differ only in the first 32 bytes of the datagram, which are always in one
// slice.

// The constants below are sizes of Parts (slices of a datagram), in bytes.
const (
	PartHeaderBytes = FragHeaderBytes + partHeadBytes // header and head, before the slice
	PartGrain       = 64                              // offsets are multiples of PartGrain
	PartTotalMax    = 1 << 16                         // largest datagram in slices, plus one byte

	partHeadBytes = 8
	partBlocks    = PartTotalMax / PartGrain
)

// PartsOf returns the number of Parts of at most mtuBytes for a packet of sizeBytes, and the bytes
// in each Part except the last one. At least one slice must fit in mtuBytes.
func PartsOf(sizeBytes, mtuBytes int) (count, slice int) {
	room := PartRoom(mtuBytes)
	count = (sizeBytes + room - 1) / room
	slice = (sizeBytes + count - 1) / count
	slice = (slice + PartGrain - 1) / PartGrain * PartGrain
	return (sizeBytes + slice - 1) / slice, slice
}

// PartRoom returns the size of the largest slice of a datagram that fits in a Part of sizeBytes.
// PartRoom returns 0 if no slice fits. The last slice of a datagram may have another size than
// PartRoom returns.
func PartRoom(sizeBytes int) int {
	return max(0, (sizeBytes-PartHeaderBytes)/PartGrain*PartGrain)
}

// PutPart writes the header of a Part, including the position of its slice, at the start of b,
// and returns the length PartHeaderBytes. The caller sets the fields Conn, Number and Seq of h,
// and PutPart sets the other fields of h. The caller writes sliceBytes of the datagram after the
// header.
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

// checkPart checks the payload of a Part. The length of every slice except the last one of a
// datagram must be a multiple of the block size, and a slice must be shorter than the datagram.
func checkPart(p []byte) error {
	offset, total := uint64(le.Uint32(p)), uint64(le.Uint32(p[4:]))
	n := uint64(len(p) - partHeadBytes)
	if total <= FragHeaderBytes || total >= PartTotalMax || n == 0 || n >= total ||
		offset%PartGrain != 0 || offset+n > total || n%PartGrain != 0 && offset+n != total {
		return ErrBounds
	}
	return nil
}

// ErrParts means that there is no memory to reassemble another datagram from slices. The caller may
// later call Add again with the same Part.
var ErrParts = errors.New("frag: no memory for another datagram in Parts")

// partsMax is the largest number of incomplete datagrams of one peer.
const partsMax = 32

// PartPool limits the memory of the incomplete datagrams of all peers of a module.
type PartPool struct {
	bytesMax, bytes int
}

// NewPartPool returns a pool with a limit of bytesMax bytes. Slices of the packet that is next in
// order may exceed the limit, because otherwise slices of later packets could keep this packet from
// being received for ever.
func NewPartPool(bytesMax int) *PartPool { return &PartPool{bytesMax: bytesMax} }

// Bytes returns the number of bytes of the pool that are in use.
func (p *PartPool) Bytes() int { return p.bytes }

// Parts reassembles the datagrams of one peer that arrive in slices, and takes memory only for
// bytes that have arrived. A zero Parts must be initialised by Init before use.
type Parts struct {
	pool *PartPool
	list []*partial // unordered
}

// partial is an incomplete datagram.
type partial struct {
	seq    seq.Num
	total  int
	blocks int // blocks that have arrived
	bytes  int
	have   [partBlocks / 64]uint64
	pieces []piece
}

// piece is a run of consecutive bytes of a datagram, starting at an offset.
type piece struct {
	offset int
	data   []byte
}

// Init makes a zero Parts ready for use with a pool.
func (a *Parts) Init(pool *PartPool) { a.pool = pool }

// Active is the number of incomplete datagrams.
func (a *Parts) Active() int { return len(a.list) }

// Add stores the new bytes of the slice in a Part, whose header and payload Decode has returned.
// If the slice completes its datagram, Add appends the datagram to dst, and returns the result.
// The argument inOrder of Add is true if the packet has the next sequence number of the peer. If
// the error of Add is ErrParts, the slice was not stored.
func (a *Parts) Add(h *Header, payload []byte, inOrder bool, dst []byte) ([]byte, error) {
	offset, total, slice := ReadPart(payload)
	p := a.find(h.Seq)
	if p != nil && p.total != total { // the packet was replaced by another
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

// The method add copies those blocks of a slice that had not arrived yet.
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

// The method place adds an entry for another datagram to the list of incomplete datagrams. If the
// list of incomplete datagrams is full, place discards the datagram with the highest sequence
// number, because the datagrams with the lowest numbers are needed first.
func (a *Parts) place(n seq.Num) bool {
	return len(a.list) < partsMax || a.evict(n)
}

// The method room makes sure that there is memory for sizeBytes of the datagram with sequence
// number n. If there is too little memory, room discards incomplete datagrams with higher sequence
// numbers.
func (a *Parts) room(n seq.Num, sizeBytes int) bool {
	for a.pool.bytes+sizeBytes > a.pool.bytesMax {
		if !a.evict(n) {
			return false
		}
	}
	return true
}

// The method evict discards the incomplete datagram with the highest sequence number, if this
// number is above n. If no number is above n, evict returns false.
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

// Sweep calls the function keep with the sequence number of each incomplete datagram. If keep
// returns false, Sweep discards the slices, because the datagram has arrived as a whole packet.
func (a *Parts) Sweep(keep func(seq.Num) bool) {
	for i := len(a.list) - 1; i >= 0; i-- {
		if p := a.list[i]; !keep(p.seq) {
			a.remove(p)
		}
	}
}

// Drop discards all incomplete datagrams, because the peer is gone. After Drop, Parts may be used
// for another peer.
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

// Check returns the number of stored bytes, and an error for the first invariant of Parts that does
// not hold.
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
