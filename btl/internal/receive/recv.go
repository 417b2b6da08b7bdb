package receive

import (
	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/stats"
	"gobtl/frag"
)

// accept accepts a new packet, unless the packet must be refused or its data cannot be stored. The
// next ACK must not cover a packet that was not accepted. The method "accept" delivers each
// fragment that the packet completes.
func (rx *Receiver) accept(in *arrival) {
	ep, h := in.ep, &in.Header
	switch {
	case ep.ID.State == peer.StateLingering:
		rx.drop(stats.CntDropState) // no packet may follow the peer's Bye
	case ep.Bye.Precedes(numberOf(ep, h)):
		rx.drop(stats.CntDropState) // no packet may follow the peer's Bye
	case h.Kind == frag.KindChunk && refuses(ep) && rx.refusedBefore(in):
	case h.Flags&(frag.FlagPut|frag.FlagOp) != 0:
		rx.acceptRemote(in)
	case h.Kind == frag.KindPack:
		rx.records.accept(in)
	case h.Tag > frag.TagUserMax:
		rx.accepted(ep, h)
		if h.Tag == frag.TagBye {
			ep.Bye.Came(numberOf(ep, h), frag.ByeCode(in.payload))
		} else {
			ep.Refusals.CameWithout(h.Seq, nil, &ep.Asm)
		}
		rx.checkBye(ep)
	case rx.handlers[h.Tag] == nil:
		rx.drop(stats.CntDropNoHandler)
		rx.refuse(in, frag.NackNoHandler)
	case h.Kind == frag.KindChunk && rx.tooLong(h):
		rx.drop(stats.CntDropUnwanted)
		rx.refuse(in, unwantedReason(ep))
	case h.Kind == frag.KindChunk:
		rx.acceptChunk(in)
	default:
		rx.accepted(ep, h)
		rx.deliver(ep, h.Tag, in.payload)
		rx.checkBye(ep)
	}
}

// tooLong reports whether a chunk belongs to a fragment that is longer than the handler of its tag
// accepts.
func (rx *Receiver) tooLong(h *frag.Header) bool {
	most := rx.mostBytes[h.Tag]
	return most != 0 && h.SizeBytes > most
}

// unwantedReason returns the reason for the Nack that refuses a chunk because its fragment is too
// long.
func unwantedReason(ep *peer.Endpoint) uint8 {
	if ep.ID.Operates {
		return frag.NackRight
	}
	return frag.NackNoHandler
}

func acceptedCounter(h *frag.Header) stats.Counter {
	switch {
	case h.Flags&frag.FlagPut != 0 && h.Kind == frag.KindChunk:
		return stats.CntRecvPutChunk
	case h.Flags&frag.FlagPut != 0:
		return stats.CntRecvPutFrag
	case h.Kind == frag.KindChunk:
		return stats.CntRecvChunk
	case h.Kind == frag.KindPack:
		return stats.CntRecvPack
	}
	return stats.CntRecvFrag
}

func (rx *Receiver) deliver(ep *peer.Endpoint, tag uint8, data []byte) {
	rx.Count[stats.CntDelivered]++
	rx.Count[stats.CntRecvPayloadBytes] += uint64(len(data))
	rx.handlers[tag](ep, tag, data)
}

// deliverWhole delivers a complete large fragment, and frees its memory unless the handler keeps
// the fragment.
func (rx *Receiver) deliverWhole(ep *peer.Endpoint, msg *frag.Message) {
	rx.Keeping.Deliver(msg)
	rx.deliver(ep, msg.Tag, msg.Bytes)
	rx.Keeping.Delivered()
}

// acceptChunk adds a chunk to its fragment, and delivers the fragment when all chunks have arrived.
func (rx *Receiver) acceptChunk(in *arrival) {
	ep, h := in.ep, &in.Header
	msg, ok := rx.assemble(in)
	if !ok {
		return
	}
	rx.accepted(ep, h)
	rx.Direct.chunkCame(ep, h, msg != nil)
	if msg != nil {
		rx.deliverWhole(ep, msg)
	}
	rx.checkBye(ep)
}

// checkBye ends the endpoint if the peer's Bye and all packets before the Bye have arrived.
func (rx *Receiver) checkBye(ep *peer.Endpoint) {
	if ep.Bye.Due(ep.Rcv.Next()) && ep.ID.State == peer.StateConnected {
		rx.Endings.PeerClosed(ep)
	}
}

// If the packet is the Bye of an aborted connection, with a sequence number that the peer can use
// next, onLastWord ends the endpoint and returns true. Otherwise, onLastWord returns false.
func (rx *Receiver) onLastWord(in *arrival) bool {
	ep := in.ep
	if in.Kind != frag.KindFrag || in.Tag != frag.TagBye || in.Flags&frag.FlagPut != 0 ||
		ep.ID.State != peer.StateConnected {
		return false
	}
	code := frag.ByeCode(in.payload)
	if !frag.ByeEndsAtOnce(code) || !ep.MayBeNext(in.Seq) {
		return false
	}
	rx.Count[stats.CntRecvFrag]++
	ev, err := peer.EventFailed, errs.WhyEnded(code)
	if ep.Closing { // this side was closing, too
		ev, err = peer.EventClosed, errs.ErrClosed
	}
	rx.Endings.End(ep, ev, err)
	return true
}
