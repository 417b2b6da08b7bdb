package receive

import (
	"fmt"

	"gobtl/btl/internal/landing"
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/remote"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
)

// chunkCame updates the endpoint's expectation of the next chunk after the chunk with header h,
// where whole is true if the fragment is complete.
func (ld *Landings) chunkCame(ep *peer.Endpoint, h *frag.Header, whole bool) {
	if x := ep.Expected(ld.lands(ep)); x != nil {
		ld.Plan.ChunkCame(x, h, whole)
	}
}

// pieceCame updates the endpoint's expectation of the next chunk after the beginning or end of a
// large fragment has arrived in a shared packet.
func (ld *Landings) pieceCame(ep *peer.Endpoint, h *frag.Header, whole bool) {
	if left := h.SizeBytes - h.OffsetBytes - uint32(h.PayloadLen); !whole && ld.Plan.Worth(left) {
		ld.chunkCame(ep, h, false)
	} else {
		ld.Plan.OtherCame(ep.Expects)
	}
}

// putCame updates the endpoint's expectation of the next chunk after an accepted packet of a put
// with the header h.
func (ld *Landings) putCame(ep *peer.Endpoint, h *frag.Header) {
	if h.Kind != frag.KindChunk {
		return
	}
	if x := ep.Expected(ld.lands(ep)); x != nil {
		ld.Plan.PutCame(x, h)
	}
}

// PollLanding polls the channel that carries chunks. If a chunk is expected, PollLanding first
// tells the provider the memory for the payload.
func (ld *Landings) PollLanding(limit int) (got int, err error) {
	var mem []byte
	if x := ld.Plan.Next(limit > 1); x != nil {
		mem = ld.memoryOf(x)
	}
	return ld.Plan.Poll(ld.Clock.Now, limit, mem)
}

// memoryOf returns the memory for the next expected chunks of an endpoint's peer. memoryOf returns
// nil if there is no such memory.
func (ld *Landings) memoryOf(x *landing.Expectation[*peer.Endpoint]) []byte {
	ep := x.Of
	if ep.ID.State() != peer.StateConnected {
		ld.Plan.OtherCame(x)
		return nil
	}
	to, isPut := x.Put()
	if !isPut {
		return x.Message()
	}
	n := uint64(to.Bytes)
	r, _ := ld.Remote.Reach(ep.Remote, remote.Handle(to.Handle), to.At, int(n),
		remote.PutNeeds(to.Flags))
	if r == nil || n == 0 {
		ld.Plan.OtherCame(x)
		return nil
	}
	return r.Bytes()[to.At:][:n:n]
}

// HandleLanded processes the completions of a poll that has told the provider memory for a payload.
func (ld *Landings) HandleLanded(c *port.Channel, comps []fabric.Completion) {
	for len(comps) > 0 {
		if comps[0].Op == fabric.OpSend {
			ld.Handle(c, &comps[0])
			comps = comps[1:]
			continue
		}
		count := ld.receiveLanded(c, comps)
		if count == 0 {
			ld.Plan.Restore(comps)
			for i := range comps {
				ld.Handle(c, &comps[i])
			}
			break
		}
		c.Received(count)
		for i := range comps[:count] {
			c.Return(comps[i].Buf)
		}
		comps = comps[count:]
	}
	ld.Plan.Done()
}

// receiveLanded accepts a chunk whose payload the provider has written directly to its final
// memory, and the chunks that directly follow it. receiveLanded returns the number of accepted
// packets. If the first packet is not the expected chunk or is not acceptable, receiveLanded
// returns 0 and changes nothing.
func (ld *Landings) receiveLanded(c *port.Channel, comps []fabric.Completion) (count int) {
	var in arrival
	x, isPut := ld.Plan.Aim()
	ep, h := x.Of, &in.Header
	switch {
	case !ld.Plan.Match(&comps[0], h) || h.Conn != ep.ID.Tag || !ep.ID.Settled() ||
		refuses(ep) || !admissible(ep, h):
		return 0
	case isPut:
		return ld.receivePutLanded(ep, h, comps)
	default:
		return ld.receiveMessageLanded(c, ep, h, comps)
	}
}

// runOf returns the number of packets that can be accepted together.
func (ld *Landings) runOf(ep *peer.Endpoint, h *frag.Header, comps []fabric.Completion,
) (count int) {
	count = 1
	if !ep.ID.Counted && h.Seq == ep.Rcv.Next() && ep.Rcv.Held() == 0 {
		count += ld.Plan.Run(h, comps)
	}
	return count
}

// receiveMessageLanded accepts directly received chunks of a message. The payloads of unexpected
// packets are copied back to their receive buffers before the provider's memory for direct
// receive can change.
func (ld *Landings) receiveMessageLanded(c *port.Channel, ep *peer.Endpoint, h *frag.Header,
	comps []fabric.Completion,
) (count int) {
	if ld.handlers[h.Tag] == nil || ld.tooLong(h) {
		return 0
	}
	count = ld.runOf(ep, h, comps)
	msg, err := ld.Plan.Accept(h, count, ep.ID.Counted || h.Seq == ep.Rcv.Next())
	if err != nil {
		return 0
	}
	ld.Count[stats.CntReceived] += uint64(count)
	ld.Count[stats.CntLanded] += uint64(count)
	if h.Flags&frag.FlagAck != 0 { // over a reliable fabric no chunk has an ACK
		ld.Sent.OnAck(ep, h, false)
	}
	ep.Life.Heard(ld.Clock.Unpaused, int(c.Which()))
	if ep.ID.Counted {
		ep.Counts.Inbound.Came(h)
		ld.accepted(ep, h)
	} else {
		ld.acceptedRun(ep, h, count)
	}
	h.OffsetBytes += uint32(count-1) * uint32(h.PayloadLen) // offset of the last chunk
	if msg == nil && !ep.Bye.Seen() {
		ld.chunkCame(ep, h, false)
		return count
	}
	ld.Plan.Restore(comps[count:])
	ld.chunkCame(ep, h, msg != nil)
	if msg != nil {
		ld.deliverWhole(ep, msg)
	}
	ld.checkBye(ep)
	return count
}

func (ld *Landings) receivePutLanded(ep *peer.Endpoint, h *frag.Header, comps []fabric.Completion,
) int {
	if ep.Bye.Seen() {
		return 0
	}
	count := ld.runOf(ep, h, comps)
	sizeBytes := count * int(h.PayloadLen)
	needs := remote.PutNeeds(h.Flags)
	to, _ := ld.Remote.Reach(ep.Remote, remote.Handle(h.Handle), h.PutOffset, sizeBytes, needs)
	if to == nil || !ld.Plan.Claim(&comps[0], to.Bytes()[h.PutOffset:][:sizeBytes]) {
		return 0
	}
	ld.Count[stats.CntReceived] += uint64(count)
	ld.Count[stats.CntLandedPut] += uint64(count)
	ld.Count[stats.CntRecvPayloadBytes] += uint64(sizeBytes)
	if h.Flags&frag.FlagAck != 0 {
		ld.Sent.OnAck(ep, h, false)
	}
	ep.Life.Heard(ld.Clock.Unpaused, int(peer.ViaData))
	ld.acceptedRun(ep, h, count)
	h.OffsetBytes += uint32(sizeBytes) - uint32(h.PayloadLen)
	h.PutOffset += uint64(sizeBytes) - uint64(h.PayloadLen)
	ld.putCame(ep, h)
	if o := to.Came(sizeBytes); o != nil {
		ld.Sent.GotAnswer(o, true)
	}
	if h.Flags&frag.FlagOp != 0 {
		if n := ep.Memory().Placed(h.Op, sizeBytes); n.Here() { // a handler may be called
			ld.Plan.Restore(comps[count:])
			ld.notify(ep, n)
		}
	}
	return count
}

// acceptedRun updates the receive state like accepted, for count consecutively numbered chunks,
// before which no packet is missing. The argument h of acceptedRun is the header of the first of
// the count chunks.
func (ld *Landings) acceptedRun(ep *peer.Endpoint, h *frag.Header, count int) {
	ld.via = peer.ViaData
	if count == 1 {
		ld.accepted(ep, h)
		return
	}
	ep.Numbers.Saw(h.Number+uint32(count-1), peer.ViaData)
	ep.Rcv.AcceptRun(ld.Clock.Now, h.Seq, uint32(count), &ld.Rules)
	ep.Rcv.Weigh(uint32(count), count*(frag.HeaderBytes(h.Kind, h.Flags)+int(h.PayloadLen)))
	ep.Rcv.Unread(ld.queuedMost)
	ld.Acks.Owe(&ep.Rcv, ld.Clock.Now)
	ld.Count[acceptedCounter(h)] += uint64(count)
}

func (rx *Receiver) checkLanding() error {
	for slot, ep := range rx.Peers.All() {
		if ep == nil || ep.Expects == nil {
			continue
		}
		if ep.Expects.Of != ep {
			return fmt.Errorf("endpoint %d has another endpoint's expectation", slot)
		}
		if err := ep.Expects.Check(rx.Landings.lands(ep)); err != nil {
			return fmt.Errorf("endpoint %d: %w", slot, err)
		}
	}
	return rx.Landings.Plan.Check()
}
