package btl

import (
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
)

// A small get is two packets, handled before their book-keeping like a message and its answer
// (receiveFast). So the answer does not carry the ACK of the request, and need not: the arrival of
// all bytes proves that the peer has accepted the request.

// getFast handles the packet in deferred, if it is a get's request or its whole answer. False means
// that the packet is still to be received, and no state has changed.
func (m *Module) getFast(
	c *port.Channel, comp *fabric.Completion, ep *Endpoint, payload []byte,
) bool {
	h := &m.deferred.hdr
	switch {
	case h.Flags&(frag.FlagPut|frag.FlagOp) == frag.FlagPut:
		o := m.remote.WriteAnswer(ep.remote, h, payload)
		if o == nil {
			return false
		}
		m.putOff(c)
		m.deferred.buf = comp.Buf
		m.stats.counters[CntRecvPayloadBytes] += uint64(len(payload))
		m.gotAnswer(o, true)
		return true
	case h.Flags&frag.FlagOp != 0 && h.OpCode == frag.OpGet && ep.id.Operates && !ep.closing:
		var g frag.Get
		from, reason := m.remote.ReachGet(ep.memory(), payload, ep.grants(), &g)
		if reason != 0 {
			return false
		}
		m.putOff(c)
		m.deferred.buf = comp.Buf
		m.answerGet(ep, from, h.Op, &g)
		return true
	}
	return false
}

// needsNoAck detaches a get from the ACK of its request, as the answer has come. A get does not
// share its packet. On a counted link the get ends by its confirmation.
func (m *Module) needsNoAck(f *Fragment) {
	if f.ep.id.Counted || f.state != fragSent {
		return
	}
	if s := &m.segs[f.seg]; s.frag == f {
		s.frag = nil
		m.segEnded(f)
	}
}
