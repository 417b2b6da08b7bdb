package receive

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/inbound"
	"gobtl/btl/internal/payload"
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/stats"
	"gobtl/frag"
	"gobtl/internal/mono"
)

func (rx *Receiver) admitCounted(in *arrival) bool {
	ep := in.ep
	if ep.ID.State == peer.StateLingering {
		return rx.drop(stats.CntDropState) // no packet may follow the peer's Bye
	}
	if why := inbound.WhyLost(&in.Header, &ep.Rcv.Receiver, &ep.Snd); why != nil {
		rx.lost(ep, why)
		return false
	}
	ep.Life.Heard(rx.Clock.Unpaused, int(rx.via))
	if in.Flags&frag.FlagAck != 0 {
		rx.Sent.OnConfirm(ep, &in.Header)
	}
	return true
}

// The method "lost" ends an endpoint with ErrLost after the fabric has lost or reordered a packet.
func (rx *Receiver) lost(ep *peer.Endpoint, why error) {
	rx.drop(stats.CntDropLost)
	rx.Endings.EndTelling(ep, frag.ByeBroken, peer.EventFailed,
		fmt.Errorf("%w: %w", errs.ErrLost, why))
}

func (rx *Receiver) refusedBeforeCounted(in *arrival) bool {
	reason := in.ep.Counts.Inbound.WhyRefused(in.FragID)
	if reason == 0 {
		return false
	}
	rx.drop(stats.CntDropState)
	rx.refuseCounted(in.ep, &in.Header, reason)
	return true
}

// assembleCounted adds a chunk to its fragment, for a connection over a reliable fabric. Over a
// reliable fabric, chunks arrive in the order of sending.
func (rx *Receiver) assembleCounted(in *arrival) (*frag.Message, bool) {
	ep, h := in.ep, &in.Header
	if why := ep.Counts.Inbound.Next(h, ep.Asm.Active() > 0); why != nil {
		rx.lost(ep, why)
		return nil, false
	}
	msg, err := ep.Asm.Add(h, in.payload, true)
	switch {
	case errors.Is(err, frag.ErrBudget):
		rx.drop(stats.CntDropReassembly)
		rx.refuseCounted(ep, h, frag.NackMemory)
		if frag.Scarce(err) {
			rx.Endings.WantsMemory(ep, h.FragID)
		}
		return nil, false
	case err != nil: // an error that no correct sender causes
		rx.lost(ep, err)
		return nil, false
	}
	ep.Counts.Inbound.Came(h)
	return msg, true
}

// The method "count" counts a received data packet. The argument "taken" of the method "count" says
// whether the packet was accepted. A requested ACK is due after Rules.AckDelay, except that after a
// chunk or a large packet it is due immediately, because the sender's memory is in use until the
// ACK arrives.
func (rx *Receiver) count(ep *peer.Endpoint, h *frag.Header, taken bool) {
	ep.Rcv.Count(rx.Clock.Now)
	switch {
	case h.Seq == 0:
	case taken && (h.Kind == frag.KindChunk || h.PayloadLen >= payload.GatherBytesMin):
		ep.Rcv.AskAck(rx.Clock.Now, 0)
	default:
		ep.Rcv.AskAck(rx.Clock.Now, rx.Rules.AckDelay)
	}
	if ep.Rcv.AckDue() != mono.Never {
		rx.Acks.Owe(&ep.Rcv, rx.Clock.Now)
	}
}

// refuseCounted counts a refused packet and queues a Nack for this packet, which is sent before the
// next Ack.
func (rx *Receiver) refuseCounted(ep *peer.Endpoint, h *frag.Header, reason uint8) {
	n := ep.Rcv.Expected()
	rx.count(ep, h, false)
	ep.Counts.Inbound.Refuse(n, h, reason)
	if h.Kind == frag.KindChunk {
		ep.Asm.Forget(h.FragID)
	}
}
