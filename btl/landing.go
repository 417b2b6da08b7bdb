package btl

import (
	"fmt"

	"gobtl/btl/internal/landing"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/remote"
	"gobtl/fabric"
	"gobtl/frag"
)

// If the provider supports direct receive (landings), it writes the payloads of expected
// chunks of large fragments directly to their final memory (package landing). The code in
// landing.go supplies the memory for directly received payloads, and accepts the packets of
// these payloads. Chunks use the data channel, or the command channel on a reliable fabric.
//
// A region is closed only in a handler or between two calls of Progress, when all received packets
// were handled, so nothing is written to a closed region.

// expected returns the endpoint's expectation of the next chunk, which the first call allocates, or
// nil if chunks of this endpoint cannot be received directly.
func (ep *Endpoint) expected() *landing.Expectation[*Endpoint] {
	if ep.expects == nil && ep.lands() {
		ep.expects = landing.New(ep, &ep.asm, ep.id.Counted)
	}
	return ep.expects
}

// chunkCame updates the endpoint's expectation of the next chunk after the chunk with header h,
// where whole is true if the fragment is complete.
func (m *Module) chunkCame(ep *Endpoint, h *frag.Header, whole bool) {
	if x := ep.expected(); x != nil {
		m.landing.ChunkCame(x, h, whole)
	}
}

// pieceCame updates the endpoint's expectation of the next chunk after the beginning or end of a
// large fragment has arrived in a shared packet.
func (m *Module) pieceCame(ep *Endpoint, h *frag.Header, whole bool) {
	if left := h.SizeBytes - h.OffsetBytes - uint32(h.PayloadLen); !whole && m.landing.Worth(left) {
		m.chunkCame(ep, h, false)
	} else {
		m.landing.OtherCame(ep.expects)
	}
}

// putCame updates the endpoint's expectation of the next chunk after an accepted packet of a put
// with the header h.
func (m *Module) putCame(ep *Endpoint, h *frag.Header) {
	if h.Kind != frag.KindChunk {
		return
	}
	if x := ep.expected(); x != nil {
		m.landing.PutCame(x, h)
	}
}

// pollLanding polls the channel that carries chunks. If a chunk is expected, pollLanding first
// tells the provider the memory for the payload.
func (m *Module) pollLanding(limit int) (got int, err error) {
	var mem []byte
	if x := m.landing.Next(limit > 1); x != nil {
		mem = m.memoryOf(x)
	}
	return m.landing.Poll(m.clock.Now, limit, mem)
}

// memoryOf returns the memory for the next expected chunks of an endpoint's peer. memoryOf returns
// nil if there is no such memory.
func (m *Module) memoryOf(x *landing.Expectation[*Endpoint]) []byte {
	ep := x.Of
	if ep.id.State() != stateConnected {
		m.landing.OtherCame(x)
		return nil
	}
	to, isPut := x.Put()
	if !isPut {
		return x.Message()
	}
	n := uint64(to.Bytes)
	r, _ := m.remote.Reach(ep.remote, Handle(to.Handle), to.At, int(n), remote.PutNeeds(to.Flags))
	if r == nil || n == 0 {
		m.landing.OtherCame(x)
		return nil
	}
	return r.Bytes()[to.At:][:n:n]
}

func (m *Module) handleLanded(c *port.Channel, comps []fabric.Completion) {
	for len(comps) > 0 {
		if comps[0].Op == fabric.OpSend {
			m.handle(c, &comps[0])
			comps = comps[1:]
			continue
		}
		count := m.receiveLanded(c, comps)
		if count == 0 {
			m.landing.Restore(comps)
			for i := range comps {
				m.handle(c, &comps[i])
			}
			break
		}
		c.Received(count)
		for i := range comps[:count] {
			c.Return(comps[i].Buf)
		}
		comps = comps[count:]
	}
	m.landing.Done()
}

// receiveLanded accepts a chunk whose payload was written to its final memory, and the adjacent
// chunks behind it. receiveLanded returns the number of accepted packets. If the first packet is
// not the expected chunk or is not acceptable, receiveLanded returns 0 and changes nothing.
func (m *Module) receiveLanded(c *port.Channel, comps []fabric.Completion) (count int) {
	var in arrival
	x, isPut := m.landing.Aim()
	ep, h := x.Of, &in.Header
	switch {
	case !m.landing.Match(&comps[0], h) || h.Conn != ep.id.Tag || !ep.id.Settled() ||
		ep.refuses() || !ep.admissible(h):
		return 0
	case isPut:
		return m.receivePutLanded(ep, h, comps)
	default:
		return m.receiveMessageLanded(c, ep, h, comps)
	}
}

// runOf returns the number of packets that can be accepted together.
func (m *Module) runOf(ep *Endpoint, h *frag.Header, comps []fabric.Completion) (count int) {
	count = 1
	if !ep.id.Counted && h.Seq == ep.rcv.Next() && ep.rcv.Held() == 0 {
		count += m.landing.Run(h, comps)
	}
	return count
}

// receiveMessageLanded accepts directly received chunks of a message. The payloads of unexpected
// packets are copied back to their receive buffers before the provider's memory for direct
// receive can change.
func (m *Module) receiveMessageLanded(c *port.Channel, ep *Endpoint, h *frag.Header,
	comps []fabric.Completion,
) (count int) {
	if m.handlers[h.Tag] == nil || m.tooLong(h) {
		return 0
	}
	count = m.runOf(ep, h, comps)
	msg, err := m.landing.Accept(h, count, ep.id.Counted || h.Seq == ep.rcv.Next())
	if err != nil {
		return 0
	}
	m.stats.counters[CntReceived] += uint64(count)
	m.stats.counters[CntLanded] += uint64(count)
	if h.Flags&frag.FlagAck != 0 { // on a counted link no chunk has an ACK
		m.onAck(ep, h, false)
	}
	ep.life.Heard(m.clock.Unpaused, int(c.Which()))
	if ep.id.Counted {
		ep.counts.inbound.Came(h)
		m.accepted(ep, h)
	} else {
		m.acceptedRun(ep, h, count)
	}
	h.OffsetBytes += uint32(count-1) * uint32(h.PayloadLen) // offset of the last chunk
	if msg == nil && !ep.bye.Seen() {
		m.chunkCame(ep, h, false)
		return count
	}
	m.landing.Restore(comps[count:])
	m.chunkCame(ep, h, msg != nil)
	if msg != nil {
		m.deliverWhole(ep, msg)
	}
	m.checkBye(ep)
	return count
}

func (m *Module) receivePutLanded(ep *Endpoint, h *frag.Header, comps []fabric.Completion) int {
	if ep.bye.Seen() {
		return 0
	}
	count := m.runOf(ep, h, comps)
	sizeBytes := count * int(h.PayloadLen)
	needs := remote.PutNeeds(h.Flags)
	to, _ := m.remote.Reach(ep.remote, Handle(h.Handle), h.PutOffset, sizeBytes, needs)
	if to == nil || !m.landing.Claim(&comps[0], to.Bytes()[h.PutOffset:][:sizeBytes]) {
		return 0
	}
	m.stats.counters[CntReceived] += uint64(count)
	m.stats.counters[CntLandedPut] += uint64(count)
	m.stats.counters[CntRecvPayloadBytes] += uint64(sizeBytes)
	if h.Flags&frag.FlagAck != 0 {
		m.onAck(ep, h, false)
	}
	ep.life.Heard(m.clock.Unpaused, int(viaData))
	m.acceptedRun(ep, h, count)
	h.OffsetBytes += uint32(sizeBytes) - uint32(h.PayloadLen)
	h.PutOffset += uint64(sizeBytes) - uint64(h.PayloadLen)
	m.putCame(ep, h)
	if o := to.Came(sizeBytes); o != nil {
		m.gotAnswer(o, true)
	}
	if h.Flags&frag.FlagOp != 0 {
		if n := ep.memory().Placed(h.Op, sizeBytes); n.Here() { // a handler may be called
			m.landing.Restore(comps[count:])
			m.notify(ep, n)
		}
	}
	return count
}

// acceptedRun updates the receive state like accepted, for count consecutively numbered
// chunks that arrived in order. The argument h of acceptedRun is the header of the first of
// the count chunks.
func (m *Module) acceptedRun(ep *Endpoint, h *frag.Header, count int) {
	m.rxVia = viaData
	if count == 1 {
		m.accepted(ep, h)
		return
	}
	ep.numbers.Seen, ep.numbers.SeenBy = h.Number+uint32(count-1), viaData
	ep.rcv.AcceptRun(m.clock.Now, h.Seq, uint32(count), &m.rules)
	ep.rcv.Weigh(uint32(count), count*(frag.HeaderBytes(h.Kind, h.Flags)+int(h.PayloadLen)))
	ep.rcv.Unread(m.rxQueuedMax)
	m.acks.Owe(&ep.rcv, m.clock.Now)
	m.stats.counters[acceptedCounter(h)] += uint64(count)
}

func (*checker) checkLanding(m *Module) error {
	for slot, ep := range m.peers.All() {
		if ep == nil || ep.expects == nil {
			continue
		}
		if ep.expects.Of != ep {
			return fmt.Errorf("endpoint %d has another endpoint's expectation", slot)
		}
		if err := ep.expects.Check(ep.lands()); err != nil {
			return fmt.Errorf("endpoint %d: %w", slot, err)
		}
	}
	return m.landing.Check()
}
