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

// chunkCame updates the prediction of the peer's next chunk (landing.Expectation) after the chunk
// with the header h has arrived. The argument "whole" of chunkCame says whether the chunk has
// completed its fragment.
func (ld *DirectChunks) chunkCame(ep *peer.Endpoint, h *frag.Header, whole bool) {
	if x := ep.Expected(ld.lands(ep)); x != nil {
		ld.Plan.ChunkCame(x, h, whole)
	}
}

// pieceCame updates the prediction of the peer's next chunk (landing.Expectation) after the
// beginning or the end of a large fragment has arrived in a Pack (a packet with data of several
// fragments).
func (ld *DirectChunks) pieceCame(ep *peer.Endpoint, h *frag.Header, whole bool) {
	if left := h.SizeBytes - h.OffsetBytes - uint32(h.PayloadLen); !whole && ld.Plan.Worth(left) {
		ld.chunkCame(ep, h, false)
	} else {
		ld.Plan.OtherCame(ep.Expects)
	}
}

// putCame updates the prediction of the peer's next chunk (landing.Expectation) after this side has
// accepted a packet of a put, with the header h.
func (ld *DirectChunks) putCame(ep *peer.Endpoint, h *frag.Header) {
	if h.Kind != frag.KindChunk {
		return
	}
	if x := ep.Expected(ld.lands(ep)); x != nil {
		ld.Plan.PutCame(x, h)
	}
}

// PollChunks polls the channel that carries chunks. If the Plan predicts the next chunk, PollChunks
// first gives the provider the destination memory of this chunk's payload, so that the provider can
// write the payload directly to this memory.
func (ld *DirectChunks) PollChunks(limit int) (got int, err error) {
	var mem []byte
	if x := ld.Plan.Next(limit > 1); x != nil {
		mem = ld.memoryOf(x)
	}
	return ld.Plan.Poll(ld.Clock.Now, limit, mem)
}

// memoryOf returns the destination memory of the chunks that the peer of x.Of is predicted to send
// next, or nil if the provider cannot write to this memory directly.
func (ld *DirectChunks) memoryOf(x *landing.Expectation[*peer.Endpoint]) []byte {
	ep := x.Of
	if ep.ID.State != peer.StateConnected {
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

// HandleLanded processes the completions of a poll in which the provider could write chunks
// directly to their destination memory.
func (ld *DirectChunks) HandleLanded(c *port.Channel, comps []fabric.Completion) {
	for len(comps) > 0 {
		if comps[0].Op == fabric.OpSend {
			ld.Handle(c, &comps[0])
			comps = comps[1:]
			continue
		}
		if !ld.receiveLanded(c, comps) {
			ld.Plan.Restore(comps)
			for i := range comps {
				ld.Handle(c, &comps[i])
			}
			break
		}
		c.Received(1)
		c.Return(comps[0].Buf)
		comps = comps[1:]
	}
	ld.Plan.Done()
}

// receiveLanded accepts the chunk in comps[0], whose payload the provider has written directly to
// the destination memory. receiveLanded returns false and changes nothing if the packet is not the
// expected chunk or cannot be accepted.
func (ld *DirectChunks) receiveLanded(c *port.Channel, comps []fabric.Completion) bool {
	var in arrival
	x, isPut := ld.Plan.Aim()
	ep, h := x.Of, &in.Header
	switch {
	case !ld.Plan.Match(&comps[0], h) || h.Conn != ep.ID.Tag || !ep.ID.Settled() ||
		refuses(ep) || !admissible(ep, h):
		return false
	case isPut:
		return ld.receivePutLanded(ep, h, comps)
	default:
		return ld.receiveMessageLanded(c, ep, h, comps)
	}
}

// receiveMessageLanded accepts a chunk of a message that the provider has written directly to the
// memory of the message. Before receiveMessageLanded delivers the complete message, it copies the
// payloads of all later packets of the same poll from the memory of direct receive to the receive
// buffers of these packets.
func (ld *DirectChunks) receiveMessageLanded(c *port.Channel, ep *peer.Endpoint, h *frag.Header,
	comps []fabric.Completion,
) bool {
	if ld.handlers[h.Tag] == nil || ld.tooLong(h) {
		return false
	}
	msg, err := ld.Plan.Accept(h, ep.ID.Counted || h.Seq == ep.Rcv.Next())
	if err != nil {
		return false
	}
	ld.Count[stats.CntReceived]++
	ld.Count[stats.CntLanded]++
	if h.Flags&frag.FlagAck != 0 { // over a reliable fabric no chunk has an ACK
		ld.Sent.OnAck(ep, h, false)
	}
	ep.Life.Heard(ld.Clock.Unpaused, int(c.Which))
	if ep.ID.Counted {
		ep.Counts.Inbound.Came(h)
	} else {
		ld.via = peer.ViaData
	}
	ld.accepted(ep, h)
	if msg == nil && !ep.Bye.Seen {
		ld.chunkCame(ep, h, false)
		return true
	}
	ld.Plan.Restore(comps[1:])
	ld.chunkCame(ep, h, msg != nil)
	if msg != nil {
		ld.deliverWhole(ep, msg)
	}
	ld.checkBye(ep)
	return true
}

func (ld *DirectChunks) receivePutLanded(
	ep *peer.Endpoint, h *frag.Header, comps []fabric.Completion,
) bool {
	if ep.Bye.Seen {
		return false
	}
	sizeBytes, needs := int(h.PayloadLen), remote.PutNeeds(h.Flags)
	to, _ := ld.Remote.Reach(ep.Remote, remote.Handle(h.Handle), h.PutOffset, sizeBytes, needs)
	if to == nil || !ld.Plan.Claim(&comps[0], to.Bytes()[h.PutOffset:][:sizeBytes]) {
		return false
	}
	ld.Count[stats.CntReceived]++
	ld.Count[stats.CntLandedPut]++
	ld.Count[stats.CntRecvPayloadBytes] += uint64(sizeBytes)
	if h.Flags&frag.FlagAck != 0 {
		ld.Sent.OnAck(ep, h, false)
	}
	ep.Life.Heard(ld.Clock.Unpaused, int(peer.ViaData))
	ld.via = peer.ViaData
	ld.accepted(ep, h)
	ld.putCame(ep, h)
	if o := to.Came(sizeBytes); o != nil {
		ld.Sent.GotAnswer(o, true)
	}
	if h.Flags&frag.FlagOp != 0 {
		if n := ep.Memory().Placed(h.Op, sizeBytes); n.Here() { // a handler is possibly called
			ld.Plan.Restore(comps[1:])
			ld.notify(ep, n)
		}
	}
	return true
}

func (rx *Receiver) checkDirect() error {
	for slot, ep := range rx.Peers.All() {
		if ep == nil || ep.Expects == nil {
			continue
		}
		if ep.Expects.Of != ep {
			return fmt.Errorf("endpoint %d has another endpoint's expectation", slot)
		}
		if err := ep.Expects.Check(rx.Direct.lands(ep)); err != nil {
			return fmt.Errorf("endpoint %d: %w", slot, err)
		}
	}
	return rx.Direct.Plan.Check()
}
