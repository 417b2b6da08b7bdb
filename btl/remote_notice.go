package btl

import (
	"gobtl/frag"
	"gobtl/reliability"
)

// placeless says whether a put with a notice, which is to leave in chunks, has to wait for an
// earlier one to end.
func (f *Fragment) placeless() bool { return f.op != nil && f.ep.remote.HasNoPlace(f.op) }

// begun says whether a fragment is partly sent: no other fragment's chunks may come between its
// own. Only its notice may wait longer, behind a fence.
func (f *Fragment) begun() bool { return f.cursor > 0 && !f.noticeDue() }

// noticeDue says whether only the notice of a fragment remains to be sent.
func (f *Fragment) noticeDue() bool {
	return f.op != nil && f.op.Notifies() && f.cursor == f.size && f.size > 0
}

// sendNotice sends the notice of a put whose chunks have left. It returns the packet's length, 0 if
// there is no room now.
func (m *Module) sendNotice(ep *Endpoint, f *Fragment) int {
	c, to := &m.port.Command, ep.cmdAddr // as all that is tiny: it may come before the bytes
	var tokens [1]reliability.Token
	if ep.roomOn(c) <= 0 {
		return 0
	}
	run := m.takeBulk(f, 1, tokens[:0])
	if len(run) == 0 {
		return 0
	}
	o := f.op
	var p packet
	p.ep, p.frag, p.seg = ep, f, run[0]
	p.Kind, p.Flags, p.Tag = frag.KindFrag, frag.FlagOp, o.Tag()
	p.Op, p.OpCode = o.Number(), frag.OpNotice
	at := m.port.Arena.Bytes(segBuf(p.seg))[frag.HeaderBytes(p.Kind, p.Flags):]
	p.PayloadLen = uint16(frag.PutNotice(at, f.size, o.Notice()))
	f.out++
	n := m.seal(&p)
	m.putSegment(c, p.seg, to)
	m.unqueue(ep, f)
	ep.awaitEnd(f)
	return n
}
