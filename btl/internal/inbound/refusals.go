package inbound

import (
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Refusals records the packets of a peer that were refused for good because of one of their
// fragments. The sender ends a refused fragment with an error, and sends its packet again as a Void
// (empty packet) or without the refused part. The zero value has no refusals.
type Refusals struct {
	list []refusal
}

// refusal records a refused chunk, or a refused part of a fragment in a shared packet.
type refusal struct {
	seq    seq.Num
	fragID uint32
	ended  bool // the resent packet has arrived
}

// refusalsMax is the maximum number of refused chunks that are stored for a connection. If more
// than refusalsMax chunks are refused, the oldest refusals are removed.
const refusalsMax = 64

// Any reports whether refusals of the peer's fragments are recorded.
func (r *Refusals) Any() bool { return len(r.list) > 0 }

// Add records that packet n had a refused chunk or part of the fragment fragID.
func (r *Refusals) Add(rcv *reliability.Receiver, n seq.Num, fragID uint32) {
	r.prune(rcv)
	if r.Has(n, fragID) {
		return
	}
	if len(r.list) == refusalsMax {
		r.list = r.list[:copy(r.list, r.list[1:])]
	}
	r.list = append(r.list, refusal{seq: n, fragID: fragID})
}

// AddPieces records the fragments whose pieces in a refused shared packet have the given tag. The
// argument n is the number of the packet.
func (r *Refusals) AddPieces(rcv *reliability.Receiver, n seq.Num, payload []byte, tag uint8) {
	for rest := payload; len(rest) > 0; {
		isPiece := frag.IsPiece(rest)
		var got uint8
		var data []byte
		if got, data, rest = frag.NextRecord(rest); isPiece && got == tag {
			var h frag.Header
			frag.DecodePiece(got, data, &h)
			r.Add(rcv, n, h.FragID)
		}
	}
}

// Has reports whether packet n was refused because of the fragment fragID. Copies of a refused
// packet are also refused, even if the tag has a handler now.
func (r *Refusals) Has(n seq.Num, fragID uint32) bool {
	for i := range r.list {
		if f := &r.list[i]; f.seq == n && f.fragID == fragID {
			return true
		}
	}
	return false
}

// CameWithout is called when packet n has arrived again, as a Void (empty packet) or as a Pack.
// CameWithout drops the received data of the fragments that were refused because of packet n and
// are not among the pieces of the Pack. The argument pieces is nil for a Void.
func (r *Refusals) CameWithout(n seq.Num, pieces *Pieces, asm *frag.Assembler) {
	for i := range r.list {
		if f := &r.list[i]; f.seq == n && !f.ended && !pieces.has(f.fragID) {
			f.ended = true
			asm.Forget(f.fragID)
		}
	}
}

// Ended reports whether the peer is known to have ended the fragment fragID with an error.
func (r *Refusals) Ended(rcv *reliability.Receiver, fragID uint32) bool {
	r.prune(rcv)
	for i := range r.list {
		if r.list[i].fragID == fragID && r.list[i].ended {
			return true
		}
	}
	return false
}

// prune removes the refusals of packets whose numbers are more than a receive window behind.
func (r *Refusals) prune(rcv *reliability.Receiver) {
	n := 0
	for _, f := range r.list {
		if !f.seq.Add(rcv.Size()).Before(rcv.Next()) {
			r.list[n] = f
			n++
		}
	}
	r.list = r.list[:n]
}
