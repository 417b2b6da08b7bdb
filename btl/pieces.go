package btl

import (
	"gobtl/frag"
	"gobtl/internal/seq"
)

// A pack may begin with the end of a fragment in chunks and end with the beginning of another one
// (the sender's side is in stream.go). Such a pack is accepted whole or not at all: before
// delivery, each piece must have memory in its fragment. Without memory the pack is dropped and
// retransmitted, as a chunk is; if a tag has no handler the pack is resent without the records of
// that tag.

// arrivedPieces holds the pieces of the pack that is being received.
type arrivedPieces struct {
	list  [2]arrivedPiece
	count int
}

type arrivedPiece struct {
	frag.Header // as of a Chunk
	payload     []byte
	place       frag.Reservation
	// failed: the fragment has failed at its sender, or the owner refuses it. The piece is ignored.
	failed bool
}

// push adds the piece with which the rest of a pack begins, and returns its fragment's id. Decode
// ensures that there are at most two.
func (a *arrivedPieces) push(rest []byte) (fragID uint32) {
	p := &a.list[a.count]
	a.count++
	tag, data, _ := nextRecord(rest)
	p.payload = frag.DecodePiece(tag, data, &p.Header)
	p.place, p.failed = frag.Reservation{}, false
	return p.FragID
}

// of returns the pieces of the pack.
func (a *arrivedPieces) of() []arrivedPiece { return a.list[:a.count] }

// has says whether the pack has a piece of the fragment.
func (a *arrivedPieces) has(fragID uint32) bool {
	for i := range a.of() {
		if a.list[i].FragID == fragID {
			return true
		}
	}
	return false
}

// admitPieces finds a place for each piece of a pack. False means that the pack is not accepted.
func (m *Module) admitPieces(in *arrival) bool {
	ep := in.ep
	ep.cameWithout(in.Seq, &m.pieces)
	var first *frag.Reservation
	for i := range m.pieces.of() {
		p := &m.pieces.list[i]
		p.failed = ep.refuses() && ep.failedThere(p.FragID) || m.tooLongPiece(&p.Header)
		if p.failed {
			continue
		}
		var err error
		p.place, err = ep.asm.Reserve(&p.Header, len(p.payload), in.Seq == ep.rcv.Next(), first)
		if err != nil {
			m.pieces.takeBack(ep)
			m.notAdded(in, err)
			return false
		}
		first = &p.place
	}
	return true
}

// tooLongPiece says whether a piece is of a fragment longer than its tag's handler accepts. A
// two-packet fragment may have no packet of its own that could be refused: it is accepted.
func (m *Module) tooLongPiece(h *frag.Header) bool {
	return m.tooLong(h) && h.SizeBytes > uint32(h.FirstBytes)+uint32(h.ChunkBytes)
}

// takeBack forgets the fragments that were begun for pieces of a pack that is not accepted.
func (a *arrivedPieces) takeBack(ep *Endpoint) {
	for i := range a.of() {
		if p := &a.list[i]; p.place.Begun {
			ep.asm.Forget(p.FragID)
		}
	}
}

// acceptPiece adds the piece at a place in the list to its fragment, and delivers that if it is
// whole.
func (m *Module) acceptPiece(ep *Endpoint, at int) {
	p := &m.pieces.list[at]
	if p.failed {
		m.stats.counters[CntRecordsDropped]++
		return
	}
	msg, err := ep.asm.AddReserved(&p.Header, &p.place, p.payload)
	if err != nil { // a handler has done something that nobody may
		m.stats.counters[CntRecordsDropped]++
		return
	}
	m.stats.counters[CntRecvPieces]++
	m.pieceCame(ep, &p.Header, msg != nil)
	switch {
	case msg == nil:
	case m.handlers[p.Tag] != nil:
		m.deliverWhole(ep, msg)
	default: // it was there when the pack was admitted; a handler has removed it
		m.stats.counters[CntRecordsDropped]++
		msg.Release()
	}
}

// refusePieces notes the fragments of a refused pack whose tag has no handler.
func (m *Module) refusePieces(in *arrival, tag uint8) {
	for rest := in.payload; len(rest) > 0; {
		isPiece := frag.IsPiece(rest)
		var got uint8
		var data []byte
		if got, data, rest = nextRecord(rest); isPiece && got == tag {
			var h frag.Header
			frag.DecodePiece(got, data, &h)
			in.ep.remember(in.Seq, h.FragID)
		}
	}
}

// cameWithout discards the received data of fragments whose pieces in pack n were refused, now that
// the pack has come without those pieces.
func (ep *Endpoint) cameWithout(n seq.Num, pieces *arrivedPieces) {
	for i := range ep.refusals {
		if r := &ep.refusals[i]; r.seq == n && !r.failed && !pieces.has(r.fragID) {
			r.failed = true
			ep.asm.Forget(r.fragID)
		}
	}
}

// pieceCame sets the expectation after a piece: the next chunk of its fragment, if enough full
// packets of it follow.
func (m *Module) pieceCame(ep *Endpoint, h *frag.Header, whole bool) {
	left := h.SizeBytes - h.OffsetBytes - uint32(h.PayloadLen)
	if !whole && left >= m.landing.guessMin {
		m.chunkCame(ep, h, false)
	} else if ep.expects != nil && ep.expects.open {
		m.expectNothing(ep)
	}
}
