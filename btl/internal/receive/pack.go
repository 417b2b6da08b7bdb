package receive

import (
	"errors"

	"gobtl/btl/internal/inbound"
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/stats"
	"gobtl/frag"
)

// Records processes Packs. A Pack is a packet with several fragments, or with parts of large
// fragments.
type Records struct {
	*Receiver
	pieces      inbound.Pieces // parts of large fragments in the Pack that is being received
	piecesTaken int            // pieces that accept has handled
	refusedTags inbound.Tags   // tags without a handler in the Pack that is being received
}

// accept accepts a Pack (a packet with several fragments), and delivers its fragments in the order
// in which they were sent. If a handler ends the endpoint, the remaining fragments of the Pack are
// dropped. If a handler unregisters the handler of a tag, the remaining fragments with this tag in
// the Pack are dropped.
func (rc *Records) accept(in *arrival) {
	if !rc.admit(in) {
		return
	}
	rc.piecesTaken = 0
	rx, ep, payload := rc.Receiver, in.ep, in.payload
	at := 0
	for {
		tag, isPiece, end := frag.RecordAt(payload, at)
		data := payload[at+frag.RecordHeaderBytes : end : end]
		if end == len(payload) {
			rc.acceptLast(in, tag, isPiece, data)
			return
		}
		at = end
		if h := rx.handlers[tag]; h != nil && !isPiece && !ep.ID.Counted &&
			ep.ID.State == peer.StateConnected { // the common case
			rx.Count[stats.CntDelivered]++ // deliver is too large to be inlined
			rx.Count[stats.CntRecvPayloadBytes] += uint64(len(data))
			h(ep, tag, data)
			continue
		}
		rc.acceptRecord(ep, tag, isPiece, data)
	}
}

// acceptLast marks a Pack (a packet with several fragments) as received, and then delivers the last
// fragment of the Pack. As soon as a Pack is marked as received, a message that a handler sends can
// carry the ACK of the Pack. A Pack is not marked as received before its last fragment, because the
// remaining fragments are not delivered if the handler of an earlier fragment calls Abort.
func (rc *Records) acceptLast(in *arrival, tag uint8, isPiece bool, data []byte) {
	taken := in.ep.ID.State == peer.StateConnected
	if taken {
		rc.accepted(in.ep, &in.Header)
	}
	rc.acceptRecord(in.ep, tag, isPiece, data)
	if !taken {
		rc.Count[stats.CntRecvPack]++
		return
	}
	rc.checkBye(in.ep)
}

// acceptRecord delivers the fragment in a record of a Pack, or, if the record contains a piece
// (part of a large fragment), adds the piece to its fragment.
func (rc *Records) acceptRecord(ep *peer.Endpoint, tag uint8, isPiece bool, data []byte) {
	connected := ep.ID.State == peer.StateConnected
	switch {
	case isPiece && connected:
		rc.acceptPiece(ep, rc.piecesTaken) // the fragment needs its bytes even without a handler
		rc.piecesTaken++
	case rc.handlers[tag] == nil || !connected || ep.ID.Counted && rc.refusedTags.Has(tag):
		rc.Count[stats.CntRecordsDropped]++
	default:
		rc.deliver(ep, tag, data)
	}
}

// admit checks the tags in a Pack (a packet with several fragments), and reports whether the
// fragments of the Pack may be delivered.
func (rc *Records) admit(in *arrival) bool {
	if in.ep.ID.Counted {
		return rc.admitCounted(in)
	}
	return rc.admitSequenced(in)
}

// admitSequenced checks the tags of the messages in a Pack, which is a packet with several small
// messages. If the tag of one message has no handler, this side refuses the whole Pack. The peer
// sends the refused Pack again without the messages of the refused tag.
func (rc *Records) admitSequenced(in *arrival) bool {
	ep, pieces := in.ep, &rc.pieces
	pieces.Clear()
	for at, end := rc.wholeRecords(in.payload), 0; at < len(in.payload); at = end {
		var tag uint8
		var isPiece bool
		tag, isPiece, end = frag.RecordAt(in.payload, at)
		again := isPiece && ep.Refusals.Has(in.Seq, pieces.Push(in.payload[at:]))
		if rc.handlers[tag] == nil || again {
			rc.drop(stats.CntDropNoHandler)
			ep.Refusals.AddPieces(&ep.Rcv.Receiver, in.Seq, in.payload, tag)
			rc.refuseSequenced(in, frag.NackRecord, tag)
			return false
		}
	}
	return !pieces.Any() && !refuses(ep) || rc.admitPieces(in)
}

// wholeRecords returns the length in bytes of the longest prefix of a Pack's payload in which every
// record is a whole fragment whose tag has a handler. In most Packs, every record is a whole
// fragment whose tag has a handler, so that the result of wholeRecords is the length of the whole
// payload.
func (rx *Receiver) wholeRecords(payload []byte) (at int) {
	for at < len(payload) {
		tag, isPiece, end := frag.RecordAt(payload, at)
		if isPiece || rx.handlers[tag] == nil {
			break
		}
		at = end
	}
	return at
}

// admitCounted checks the tags of the messages in a Pack (a packet with several messages) before
// their delivery. This side refuses the messages whose tag has no handler, with one Nack for each
// tag. The messages whose tag has a handler are delivered. If the Pack is invalid, admitCounted
// ends the endpoint and returns false, and otherwise it returns true.
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
			refused.Add(tag)
		}
	}
	ep.Counts.Inbound.RefuseRecords(ep.Rcv.Expected(), refused)
	return true
}

// admitPieces reserves reassembly memory for each part of a large fragment in a received Pack
// (inbound.Pieces), and reports whether the Pack can be accepted.
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

// tooLongPiece reports whether a piece (part of a large fragment) belongs to a fragment that is
// longer than the handler of the fragment's tag accepts.
func (rc *Records) tooLongPiece(h *frag.Header) bool {
	return rc.tooLong(h) && h.SizeBytes > uint32(h.FirstBytes)+uint32(h.ChunkBytes)
}

// acceptPiece adds a piece (part of a large fragment) of the received Pack to its fragment, and
// delivers the fragment if it is complete. The argument "at" of acceptPiece is the index of the
// piece among the pieces of the Pack.
func (rc *Records) acceptPiece(ep *peer.Endpoint, at int) {
	h, msg, ok := rc.pieces.Add(&ep.Asm, at)
	if !ok { // the fragment was refused, or a handler of this Pack has ended the endpoint
		rc.Count[stats.CntRecordsDropped]++
		return
	}
	rc.Count[stats.CntRecvPieces]++
	rc.Direct.pieceCame(ep, h, msg != nil)
	switch {
	case msg == nil:
	case rc.handlers[h.Tag] != nil:
		rc.deliverWhole(ep, msg)
	default: // a handler of this Pack has removed the handler of this tag
		rc.Count[stats.CntRecordsDropped]++
		msg.Release()
	}
}
