package receive

import (
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/remote"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
)

// acceptRemote accepts a packet of a memory operation if the peer has the right to the operation,
// and executes the operation. If no send buffer is free, the reply to a get is queued, and is sent
// after acceptRemote has returned. For gets, acceptRemote must test the same conditions as the
// method getFast.
func (rx *Receiver) acceptRemote(in *arrival) {
	ep, h := in.ep, &in.Header
	p := ep.Remote
	if h.Flags&frag.FlagOp != 0 {
		notifies := h.OpCode == frag.OpNotice || h.OpCode == frag.OpPlaced
		if p = ep.Memory(); notifies && rx.handlers[h.Tag] == nil {
			rx.drop(stats.CntDropNoHandler)
			rx.refuse(in, frag.NackNoHandler)
			return
		}
	}
	var did remote.Outcome[*peer.Fragment]
	if reason := rx.Remote.Accept(p, h, in.payload, grants(ep), &did); reason != 0 {
		if !ep.ID.Operates {
			reason = frag.NackAccess
		}
		rx.drop(stats.CntDropAccess)
		rx.refuse(in, reason)
		return
	}
	rx.Count[stats.CntRecvPayloadBytes] += uint64(did.Written)
	if did.Ended != nil {
		if did.Failed {
			did.Ended.Fragment.Refuse(did.Reason)
		}
		rx.Sent.GotAnswer(did.Ended, h.Flags&frag.FlagPut != 0)
	}
	rx.accepted(ep, h)
	if h.Flags&frag.FlagPut != 0 {
		rx.Direct.putCame(ep, h)
	}
	switch {
	case did.Notice != nil:
		rx.notify(ep, did.Notice)
	case h.OpCode == frag.OpPlaced:
		rx.deliver(ep, h.Tag, did.Says)
	case ep.Closing: // after the Bye, no reply may be sent
	case did.Read != nil:
		rx.Sender.SendGetReply(ep, did.Read, h.Op, &did.Get)
	case did.Fetched:
		f := rx.Frags.LendAnswer(ep)
		f.AnswerWith(rx.Remote.AnswerResult(p, f, h.Op, did.Old))
	}
	rx.checkBye(ep)
}

func grants(ep *peer.Endpoint) remote.Link {
	return remote.Link{FragBytesMax: ep.FragBytesMax, InOrder: ep.ID.Counted}
}

// If all bytes of a put are written, notify delivers the put's completion notification to the
// handler of its tag.
func (rx *Receiver) notify(ep *peer.Endpoint, n *remote.Notice) {
	tag, says, ok := n.Take()
	if !ok {
		return
	}
	if rx.handlers[tag] == nil { // the handler was removed after the notice had arrived
		rx.Count[stats.CntRecordsDropped]++
		return
	}
	rx.deliver(ep, tag, says)
}

// A small get consists of a request packet and a reply packet. The request and the reply of a small
// get are processed before the receive state is updated, like a single message (ReceiveFast). The
// reply to a small get need not contain an ACK of the request, because the arrival of all bytes
// proves that the request was accepted.

// getFast processes the received packet in rx.Deferred and returns true, if the packet is the
// request of a get or a reply with all bytes of a get. If getFast returns false, it has changed
// nothing. The method acceptRemote must test the same conditions as getFast.
func (rx *Receiver) getFast(
	c *port.Channel, comp *fabric.Completion, ep *peer.Endpoint, payload []byte,
) bool {
	h := &rx.Deferred.hdr
	switch {
	case h.Flags&(frag.FlagPut|frag.FlagOp) == frag.FlagPut:
		o := rx.Remote.WriteAnswer(ep.Remote, h, payload)
		if o == nil {
			return false
		}
		rx.putOff(c)
		rx.Deferred.buf = comp.Buf
		rx.Count[stats.CntRecvPayloadBytes] += uint64(len(payload))
		rx.Sent.GotAnswer(o, true)
		return true
	case h.Flags&frag.FlagOp != 0 && h.OpCode == frag.OpGet && ep.ID.Operates && !ep.Closing:
		var g frag.Get
		from, reason := rx.Remote.ReachGet(ep.Memory(), payload, grants(ep), &g)
		if reason != 0 {
			return false
		}
		rx.putOff(c)
		rx.Deferred.buf = comp.Buf
		rx.Sender.SendGetReply(ep, from, h.Op, &g)
		return true
	}
	return false
}
