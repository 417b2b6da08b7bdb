package inbound

import (
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Refusals records the packets of a peer that were permanently refused because of one of their
// fragments. The sender ends a refused fragment with an error, and resends the refused packet
// without the refused fragment or as a Void (empty packet). A zero Refusals contains no refusals.
type Refusals struct {
	list *[]refusal // nil before the first refusal, as with most peers
}

func (r *Refusals) all() []refusal {
	if r.list == nil {
		return nil
	}
	return *r.list
}

// The type "refusal" records the first refused chunk of a fragment, or a refused part of a fragment
// in a Pack (a packet that several fragments share). A fragment has at most three refusals, which
// are for its first refused chunk and for the at most two Packs that contain parts of the fragment.
type refusal struct {
	seq    seq.Num
	fragID uint32
	ended  bool // the resent packet has arrived
}

// refusalsMax is the maximum number of refusals that are stored for a connection. When a connection
// has more than refusalsMax refusals, the oldest refusals are removed.
const refusalsMax = 1024

// Any reports whether at least one refusal of a fragment from the peer is recorded.
func (r *Refusals) Any() bool { return r.list != nil && len(*r.list) > 0 }

// Add records that packet n contained a refused chunk of the fragment fragID. Add does nothing if
// the fragment already has a refusal.
func (r *Refusals) Add(rcv *reliability.Receiver, n seq.Num, fragID uint32) {
	if !r.HasFragment(fragID) {
		r.add(rcv, n, fragID)
	}
}

func (r *Refusals) add(rcv *reliability.Receiver, n seq.Num, fragID uint32) {
	if r.list == nil {
		r.list = new([]refusal)
	}
	r.prune(rcv)
	list := *r.list
	if len(list) == refusalsMax {
		list = list[:copy(list, list[1:])]
	}
	*r.list = append(list, refusal{seq: n, fragID: fragID})
}

// AddPieces must be called when packet n, a Pack (a packet with data of several fragments), is
// refused because the receiver refuses the fragments with the given tag. For each large fragment
// with the given tag of which packet n contains a part, AddPieces records a refusal.
func (r *Refusals) AddPieces(rcv *reliability.Receiver, n seq.Num, payload []byte, tag uint8) {
	for rest := payload; len(rest) > 0; {
		isPiece := frag.IsPiece(rest)
		var got uint8
		var data []byte
		if got, data, rest = frag.NextRecord(rest); isPiece && got == tag {
			var h frag.Header
			frag.DecodePiece(got, data, &h)
			if !r.Has(n, h.FragID) {
				r.add(rcv, n, h.FragID)
			}
		}
	}
}

// HasFragment reports whether a chunk or a part of the fragment fragID was refused. Because the
// sender ends a refused fragment, the receiver can refuse all remaining chunks of this fragment.
func (r *Refusals) HasFragment(fragID uint32) bool {
	for _, f := range r.all() {
		if f.fragID == fragID {
			return true
		}
	}
	return false
}

// Has reports whether packet n, which several fragments share, was refused because of the fragment
// fragID. This side refuses every copy of a refused packet again, even if the application has added
// the missing handler after the first refusal.
func (r *Refusals) Has(n seq.Num, fragID uint32) bool {
	for _, f := range r.all() {
		if f.seq == n && f.fragID == fragID {
			return true
		}
	}
	return false
}

// CameWithout must be called when the refused packet n has arrived again, as a Void (empty packet)
// or as a Pack (shared packet). CameWithout drops the received data of each fragment that was
// refused in packet n, unless the resent packet contains a part of this fragment. The argument
// "pieces" of CameWithout is nil for a Void.
func (r *Refusals) CameWithout(n seq.Num, pieces *Pieces, asm *frag.Assembler) {
	list := r.all()
	for i := range list {
		if f := &list[i]; f.seq == n && !f.ended && !pieces.has(f.fragID) {
			f.ended = true
			asm.Forget(f.fragID)
		}
	}
}

// Ended reports whether the peer is known to have ended the fragment fragID with an error.
func (r *Refusals) Ended(rcv *reliability.Receiver, fragID uint32) bool {
	r.prune(rcv)
	for _, f := range r.all() {
		if f.fragID == fragID && f.ended {
			return true
		}
	}
	return false
}

// prune removes the refusals of packets whose sequence numbers are more than a receive window below
// the next expected number.
func (r *Refusals) prune(rcv *reliability.Receiver) {
	list := r.all()
	kept := list[:0]
	for _, f := range list {
		if !f.seq.Add(rcv.Size()).Before(rcv.Next()) {
			kept = append(kept, f)
		}
	}
	if r.list != nil {
		*r.list = kept
	}
}
