package btl

import (
	"gobtl/frag"
	"gobtl/internal/seq"
)

// A packet that several fragments share may begin with the end of one large fragment, and end with
// the beginning of another one. A part of a large fragment in a shared packet is called a piece.
// Pieces are sent by the code in stream.go. The receiver accepts a shared packet completely or not
// at all, so it reserves the memory for all pieces before the delivery. Without memory for a piece,
// the receiver drops the shared packet, and the sender retransmits it. If a tag has no handler, the
// sender retransmits the shared packet without the fragments of that tag.

// arrivedPieces holds the pieces (parts of large fragments) in the shared packet that is being
// received.
type arrivedPieces struct {
	list  [2]arrivedPiece
	count int
}

type arrivedPiece struct {
	frag.Header // as of a Chunk
	payload     []byte
	place       frag.Reservation
	// failed means that the piece is ignored, because the sender has ended the fragment with an
	// error or the application refuses the fragment.
	failed bool
}

// push appends the piece at the beginning of rest, the unread part of a shared packet, and
// returns the id of the piece's fragment.
func (a *arrivedPieces) push(rest []byte) (fragID uint32) {
	p := &a.list[a.count]
	a.count++
	tag, data, _ := nextRecord(rest)
	p.payload = frag.DecodePiece(tag, data, &p.Header)
	p.place, p.failed = frag.Reservation{}, false
	return p.FragID
}

// of returns the pieces of the shared packet.
func (a *arrivedPieces) of() []arrivedPiece { return a.list[:a.count] }

// has reports whether the shared packet contains a piece of the fragment fragID.
func (a *arrivedPieces) has(fragID uint32) bool {
	for i := range a.of() {
		if a.list[i].FragID == fragID {
			return true
		}
	}
	return false
}

// admitPieces reserves memory for each piece in a received shared packet. admitPieces returns false
// if the shared packet cannot be accepted.
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

// tooLongPiece reports whether a piece belongs to a fragment longer than the handler of its tag
// accepts.
func (r *reception) tooLongPiece(h *frag.Header) bool {
	return r.tooLong(h) && h.SizeBytes > uint32(h.FirstBytes)+uint32(h.ChunkBytes)
}

// takeBack drops the incomplete fragments that were made for the pieces of a refused shared packet.
func (a *arrivedPieces) takeBack(ep *Endpoint) {
	for i := range a.of() {
		if p := &a.list[i]; p.place.Begun {
			ep.asm.Forget(p.FragID)
		}
	}
}

// acceptPiece adds a piece of the received shared packet to its fragment, where at is the
// index of the piece, and delivers the fragment if it is complete.
func (m *Module) acceptPiece(ep *Endpoint, at int) {
	p := &m.pieces.list[at]
	if p.failed {
		m.stats.counters[CntRecordsDropped]++
		return
	}
	msg, err := ep.asm.AddReserved(&p.Header, &p.place, p.payload)
	if err != nil { // a handler has broken the rules, for example by ending the endpoint
		m.stats.counters[CntRecordsDropped]++
		return
	}
	m.stats.counters[CntRecvPieces]++
	m.pieceCame(ep, &p.Header, msg != nil)
	switch {
	case msg == nil:
	case m.handlers[p.Tag] != nil:
		m.deliverWhole(ep, msg)
	default: // a handler has removed the handler of this tag meanwhile
		m.stats.counters[CntRecordsDropped]++
		msg.Release()
	}
}

// refusePieces records the fragments whose pieces in a refused shared packet have a tag without a
// handler.
func (in *arrival) refusePieces(tag uint8) {
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

// cameWithout drops the received data of fragments whose pieces in packet n were refused.
func (ep *Endpoint) cameWithout(n seq.Num, pieces *arrivedPieces) {
	for i := range ep.refusals {
		if r := &ep.refusals[i]; r.seq == n && !r.failed && !pieces.has(r.fragID) {
			r.failed = true
			ep.asm.Forget(r.fragID)
		}
	}
}
