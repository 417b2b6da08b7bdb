package frag

import (
	"errors"
	"fmt"
	"math/bits"

	"gobtl/internal/list"
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
// transmissions of a datagram differ only in their first 32 bytes, and each slice contains either
// all or none of these 32 bytes.

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

// ErrParts means that the receiver has no memory to reassemble another datagram from slices. After
// ErrParts, the caller may repeat the call of Add with the same Part later.
var ErrParts = errors.New("frag: no memory for another datagram in Parts")

// partsMax is the largest number of incomplete datagrams of one peer.
const partsMax = 32

// PartPool limits the memory for incomplete datagrams of all peers of a module together. If the
// pool has no memory left for a peer's slices, the pool discards incomplete datagrams of a peer in
// a higher rank, which uses more memory.
//
//	ranks[0]    unused
//	ranks[k]    peers with 2^(k-1) to 2^k - 1 bytes    Parts, Parts, Parts
//
// A peer has no rank if its only incomplete datagram is its next packet in sequence, because the
// pool never discards this datagram for other peers.
type PartPool struct {
	bytesMax, bytes int
	ranks           [partRanks]list.List[*Parts] // the peer that entered a rank last is first
}

// partRanks is the number of ranks. The incomplete datagrams of a peer take less than partsMax *
// PartTotalMax bytes, which are 2 MiB.
const partRanks = 22

// NewPartPool returns a PartPool with a limit of bytesMax bytes. Slices of the next packet in
// sequence are exempt from the memory limit of a PartPool, because slices of later packets could
// otherwise block the next packet for ever.
func NewPartPool(bytesMax int) *PartPool { return &PartPool{bytesMax: bytesMax} }

// Bytes returns the memory, in bytes, that the incomplete datagrams of all peers take.
func (p *PartPool) Bytes() int { return p.bytes }

// Parts reassembles those datagrams from one peer that arrive in slices. Parts allocates memory
// only for bytes that have arrived. A zero Parts must not be used before a call of Init.
type Parts struct {
	pool    *PartPool
	list    []*partial        // unordered
	inOrder *partial          // of the list; a slice of it arrived as the next in sequence
	bytes   int               // of the list
	rank    int               // in pool.ranks; 0: in none
	at      list.Node[*Parts] // in the rank
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
	if inOrder {
		a.inOrder = p
	}
	a.count(p.add(offset, slice))
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

// The method "add" stores those blocks (of PartGrain bytes) of a slice that had not arrived before.
// The result of the method "add" is the number of stored bytes.
func (p *partial) add(offset int, slice []byte) (stored int) {
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
			stored += hi - lo
		} else {
			b++
		}
	}
	p.bytes += stored
	return stored
}

// The method "count" adds a number of bytes, which may be negative, to the bytes of the peer and of
// the pool, and moves the peer to the rank of its new number of bytes.
func (a *Parts) count(bytes int) {
	a.bytes += bytes
	a.pool.bytes += bytes
	rank := a.rankNow()
	if rank == a.rank {
		return
	}
	a.at.Remove()
	if a.rank = rank; rank > 0 {
		a.pool.ranks[rank].PushFront(&a.at, a)
	}
}

// rankNow returns the rank of the peer's present number of bytes, or 0 if the peer has no
// incomplete datagram that may be discarded for other peers.
func (a *Parts) rankNow() int {
	if len(a.list) == 0 || len(a.list) == 1 && a.inOrder != nil {
		return 0
	}
	return rankOf(a.bytes)
}

// rankOf returns the rank of a peer with a number of bytes.
func rankOf(bytes int) int { return min(bits.Len(uint(bytes)), partRanks-1) }

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

// The method "room" makes sure that the pool has memory for sizeBytes of the datagram with the
// sequence number n, and returns false if it cannot. If the pool has too little memory, the method
// "room" first discards incomplete datagrams of peers in a higher rank than this peer would have
// with the additional bytes. If the pool still has too little memory, the method "room" discards
// incomplete datagrams of this peer with sequence numbers above n.
func (a *Parts) room(n seq.Num, sizeBytes int) bool {
	for a.pool.bytes+sizeBytes > a.pool.bytesMax {
		if other := a.pool.above(rankOf(a.bytes + sizeBytes)); other != nil {
			other.remove(other.last()) // never the one in order
		} else if !a.evict(n) {
			return false
		}
	}
	return true
}

// The method "above" returns a peer of the highest rank that has peers, or nil if no peer has a
// higher rank than the argument "rank".
func (p *PartPool) above(rank int) *Parts {
	for r := partRanks - 1; r > rank; r-- {
		if a := p.ranks[r].First(); a != nil {
			return a
		}
	}
	return nil
}

// The method "last" returns the incomplete datagram with the highest sequence number. The list of
// incomplete datagrams must not be empty.
func (a *Parts) last() *partial {
	last := a.list[0]
	for _, p := range a.list {
		if last.seq.Before(p.seq) {
			last = p
		}
	}
	return last
}

// The method "evict" discards the incomplete datagram with the highest sequence number, if this
// number is above n. If no incomplete datagram has a sequence number above n, evict returns false.
func (a *Parts) evict(n seq.Num) bool {
	if len(a.list) == 0 {
		return false
	}
	last := a.last()
	if !n.Before(last.seq) {
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
	if a.inOrder == p {
		a.inOrder = nil
	}
	a.count(-p.bytes)
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
	if sizeBytes != a.bytes || a.rank != a.rankNow() || a.rank > 0 && !a.inRank() {
		return 0, fmt.Errorf("frag: %d bytes in Parts, %d counted, rank %d, want %d", sizeBytes, a.bytes,
			a.rank, a.rankNow())
	}
	return sizeBytes, nil
}

// The method inRank reports whether the list of the peer's rank contains the peer.
func (a *Parts) inRank() bool {
	for p := a.pool.ranks[a.rank].First(); p != nil; p = p.at.Next() {
		if p == a {
			return true
		}
	}
	return false
}
