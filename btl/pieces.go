package btl

import "gobtl/frag"

// admitPieces reserves memory for each piece in a received shared packet (inbound.Pieces).
// admitPieces returns false if the shared packet cannot be accepted.
func (m *Module) admitPieces(in *arrival) bool {
	ep := in.ep
	ep.refusals.CameWithout(in.Seq, &m.pieces, &ep.asm)
	err := m.pieces.Reserve(&ep.asm, in.Seq == ep.rcv.Next(), func(h *frag.Header) bool {
		return ep.refuses() && ep.refusals.Ended(&ep.rcv.Receiver, h.FragID) || m.tooLongPiece(h)
	})
	if err != nil {
		m.notAdded(in, err)
	}
	return err == nil
}

// tooLongPiece reports whether a piece belongs to a fragment longer than the handler of its tag
// accepts.
func (r *reception) tooLongPiece(h *frag.Header) bool {
	return r.tooLong(h) && h.SizeBytes > uint32(h.FirstBytes)+uint32(h.ChunkBytes)
}

// acceptPiece adds a piece of the received shared packet to its fragment, where at is the
// index of the piece, and delivers the fragment if it is complete.
func (m *Module) acceptPiece(ep *Endpoint, at int) {
	h, msg, ok := m.pieces.Add(&ep.asm, at)
	if !ok { // the fragment has failed, or a handler has ended the endpoint meanwhile
		m.stats.counters[CntRecordsDropped]++
		return
	}
	m.stats.counters[CntRecvPieces]++
	m.pieceCame(ep, h, msg != nil)
	switch {
	case msg == nil:
	case m.handlers[h.Tag] != nil:
		m.deliverWhole(ep, msg)
	default: // a handler has removed the handler of this tag meanwhile
		m.stats.counters[CntRecordsDropped]++
		msg.Release()
	}
}
