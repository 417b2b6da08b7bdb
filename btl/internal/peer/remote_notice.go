package peer

import (
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// The method "placeless" reports whether a put with a completion notification must wait before its
// first chunk is sent. The put must wait if a previous put with a completion notification still
// uses the slot in which the receiver would track this put.
func (f *Fragment) placeless() bool { return f.Op != nil && f.Ep.Remote.HasNoPlace(f.Op) }

// noticeDue reports whether only the completion notification of a put is unsent.
func (f *Fragment) noticeDue() bool {
	return f.Op != nil && f.Op.Notifies() && f.cursor == f.size && f.size > 0
}

// sendNotice sends the completion notification of a put whose chunks have been sent. sendNotice
// returns the packet's length in bytes, or 0 if the packet cannot be sent at present.
func (tx Sender) sendNotice(ep *Endpoint, f *Fragment) int {
	c, to := &tx.Port.Command, ep.cmdAddr // the notice is tiny, and may overtake the chunks of the put
	var tokens [1]reliability.Token
	if ep.roomOn(c) <= 0 {
		return 0
	}
	run := tx.Buffers.takeBulk(f, 1, tokens[:0])
	if len(run) == 0 {
		return 0
	}
	o := f.Op
	var p packet
	p.ep, p.frag, p.seg = ep, f, run[0]
	p.Kind, p.Flags, p.Tag = frag.KindFrag, frag.FlagOp, o.Tag()
	p.Op, p.OpCode = o.Number, frag.OpNotice
	at := tx.Port.Arena.Bytes(fabric.Buf(p.seg))[frag.HeaderBytes(p.Kind, p.Flags):]
	p.PayloadLen = uint16(frag.PutNotice(at, f.size, o.Notice()))
	f.out++
	n := tx.Links.seal(&p)
	tx.Buffers.putSegment(c, p.seg, to)
	tx.unqueue(ep, f)
	ep.awaitEnd(f)
	return n
}
