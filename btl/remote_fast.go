package btl

import (
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
)

// A small get consists of a request packet and a reply packet. The request and the reply of
// a small get are handled before the receive state is updated, like a single message
// (receiveFast). The reply to a small get does not acknowledge the request. No
// acknowledgement is needed, because the arrival of all bytes proves that the peer has
// accepted the request.

// getFast handles the received packet in m.deferred, if it is the request of a get or contains all
// bytes of a get. If the packet must be received in the ordinary way, getFast returns false and
// changes nothing.
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

// needsNoAck makes the end of a get independent of the acknowledgement of its request, because
// the reply has arrived. The request of a get never shares its packet.
func (m *Module) needsNoAck(f *Fragment) {
	if f.ep.id.Counted || f.state != fragSent {
		return
	}
	if s := &m.segs[f.seg]; s.frag == f {
		s.frag = nil
		m.segEnded(f)
	}
}
