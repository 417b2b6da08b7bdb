package receive

import (
	"errors"

	"gobtl/btl/internal/inbound"
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/stats"
	"gobtl/frag"
)

// Records handles Packs, which are packets of several fragments, or of parts of large fragments.
type Records struct {
	*Receiver
	pieces      inbound.Pieces // parts of large fragments in the Pack that is being received
	refusedTags inbound.Tags   // tags without a handler in the Pack that is being received
}

// accept accepts a Pack, and delivers its fragments in the order in which they were sent. If a
// handler removes another handler or ends the endpoint, the remaining fragments of the Pack for
// that handler or endpoint are dropped.
func (rc *Records) accept(in *arrival) {
	rx, ep, h := rc.Receiver, in.ep, &in.Header
	if !rc.admit(in) {
		return
	}
	taken, pieces := false, 0
	for rest := in.payload; len(rest) > 0; {
		var tag uint8
		var data []byte
		isPiece := frag.IsPiece(rest)
		tag, data, rest = frag.NextRecord(rest)
		if len(rest) == 0 && ep.ID.State() == peer.StateConnected {
			// A reply to an earlier fragment of the Pack must not acknowledge the Pack, because
			// an Abort in a handler may prevent the delivery of the later fragments.
			rx.accepted(ep, h)
			taken = true
		}
		switch {
		case isPiece && ep.ID.State() == peer.StateConnected:
			rc.acceptPiece(ep, pieces) // the fragment needs the piece even without a handler
			pieces++
		case rx.handlers[tag] == nil || ep.ID.State() != peer.StateConnected ||
			ep.ID.Counted && rc.refusedTags.Has(tag):
			rx.Count[stats.CntRecordsDropped]++
		default:
			rx.deliver(ep, tag, data)
		}
	}
	if !taken {
		rx.Count[stats.CntRecvPack]++
		return
	}
	rx.checkBye(ep)
}

// admit checks the tags of a Pack before delivery. admit returns false if no record
// of the Pack may be delivered.
func (rc *Records) admit(in *arrival) bool {
	if in.ep.ID.Counted {
		return rc.admitCounted(in)
	}
	return rc.admitSequenced(in)
}

// admitSequenced checks the tags of the messages in a Pack, a packet with several small
// messages. A Pack is refused as a whole if the tag of one message has no handler. The peer sends a
// refused Pack again without the messages of the refused tag.
func (rc *Records) admitSequenced(in *arrival) bool {
	ep := in.ep
	pieces := &rc.pieces
	pieces.Clear()
	for rest := in.payload; len(rest) > 0; {
		again := false
		if frag.IsPiece(rest) {
			again = ep.Refusals.Has(in.Seq, pieces.Push(rest))
		}
		var tag uint8
		tag, _, rest = frag.NextRecord(rest)
		if rc.handlers[tag] == nil || again {
			rc.drop(stats.CntDropNoHandler)
			ep.Refusals.AddPieces(&ep.Rcv.Receiver, in.Seq, in.payload, tag)
			rc.refuseSequenced(in, frag.NackRecord, tag)
			return false
		}
	}
	return !pieces.Any() && !refuses(ep) || rc.admitPieces(in)
}

// admitCounted checks the tags of the messages in a Pack before delivery. Messages without a
// handler are refused by a Nack for each tag, and the other messages are delivered. If the Pack is
// invalid, admitCounted ends the endpoint and returns false.
func (rc *Records) admitCounted(in *arrival) bool {
	ep, refused := in.ep, &rc.refusedTags
	*refused = inbound.Tags{}
	for rest := in.payload; len(rest) > 0; {
		if frag.IsPiece(rest) { // over a reliable fabric there are no pieces
			rc.lost(ep, errors.New("a pack has a piece of a fragment"))
			return false
		}
		var tag uint8
		tag, _, rest = frag.NextRecord(rest)
		if rc.handlers[tag] == nil {
			ep.Counts.Inbound.RefuseRecords(ep.Rcv.Expected(), tag, refused)
		}
	}
	return true
}

// admitPieces reserves memory for each piece in a received shared packet (inbound.Pieces).
// admitPieces returns false if the shared packet cannot be accepted.
func (rc *Records) admitPieces(in *arrival) bool {
	ep := in.ep
	ep.Refusals.CameWithout(in.Seq, &rc.pieces, &ep.Asm)
	err := rc.pieces.Reserve(&ep.Asm, in.Seq == ep.Rcv.Next(), func(h *frag.Header) bool {
		return refuses(ep) && ep.Refusals.Ended(&ep.Rcv.Receiver, h.FragID) || rc.tooLongPiece(h)
	})
	if err != nil {
		rc.notAdded(in, err)
	}
	return err == nil
}

// tooLongPiece reports whether a piece belongs to a fragment longer than the handler of its tag
// accepts.
func (rc *Records) tooLongPiece(h *frag.Header) bool {
	return rc.tooLong(h) && h.SizeBytes > uint32(h.FirstBytes)+uint32(h.ChunkBytes)
}

// acceptPiece adds a piece of the received shared packet to its fragment, where at is the
// index of the piece, and delivers the fragment if it is complete.
func (rc *Records) acceptPiece(ep *peer.Endpoint, at int) {
	h, msg, ok := rc.pieces.Add(&ep.Asm, at)
	if !ok { // the fragment has failed, or a handler has ended the endpoint meanwhile
		rc.Count[stats.CntRecordsDropped]++
		return
	}
	rc.Count[stats.CntRecvPieces]++
	rc.Landings.pieceCame(ep, h, msg != nil)
	switch {
	case msg == nil:
	case rc.handlers[h.Tag] != nil:
		rc.deliverWhole(ep, msg)
	default: // a handler has removed the handler of this tag meanwhile
		rc.Count[stats.CntRecordsDropped]++
		msg.Release()
	}
}
