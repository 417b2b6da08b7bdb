package btl

import (
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
)

// A get of few bytes is two packets, which are handled before their book-keeping, as a message and
// its answer are (receiveFast). So the answer does not carry the ACK of what asked for it, nor does
// the get need that: who has all the bytes knows that the owner has taken the request over.

// getFast does so for the packet in deferred, if it asks for bytes or brings all that a get has
// asked for; false means that the packet is still to be received, and nothing has changed.
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
	case h.Flags&frag.FlagOp != 0 && h.OpCode == frag.OpGet && ep.operates && !ep.closing:
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

// needsNoAck has the ACK of the packet that asked for something end nothing any more: the answer is
// there. A get shares its packet with nothing. A counted one is confirmed, and ends by that.
func (m *Module) needsNoAck(f *Fragment) {
	if f.ep.counted || f.state != fragSent {
		return
	}
	if s := &m.segs[f.seg]; s.frag == f {
		s.frag = nil
		m.segEnded(f)
	}
}
