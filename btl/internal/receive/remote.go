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
// and performs the operation before it returns. Only the bytes that a get requests may be sent
// after acceptRemote has returned, when send buffers are free.
func (rx *Receiver) acceptRemote(in *arrival) {
	ep, h := in.ep, &in.Header
	p := ep.Remote
	if h.Flags&frag.FlagOp != 0 {
		if p = ep.Memory(); notifies(h.OpCode) && rx.handlers[h.Tag] == nil {
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
			did.Ended.Fragment().Refuse(did.Reason)
		}
		rx.Sent.GotAnswer(did.Ended, h.Flags&frag.FlagPut != 0)
	}
	rx.accepted(ep, h)
	if h.Flags&frag.FlagPut != 0 {
		rx.Landings.putCame(ep, h)
	}
	switch {
	case did.Notice != nil:
		rx.notify(ep, did.Notice)
	case h.OpCode == frag.OpPlaced:
		rx.deliver(ep, h.Tag, did.Says)
	case ep.Closing: // no reply may be sent any more, which the Bye tells the peer
	case did.Read != nil:
		rx.Sender.AnswerGet(ep, did.Read, h.Op, &did.Get)
	case did.Fetched:
		f := rx.Frags.LendAnswer(ep)
		f.AnswerWith(rx.Remote.AnswerResult(p, f, h.Op, did.Old))
	}
	rx.checkBye(ep)
}

// notifies reports whether a packet of an operation contains the completion notification of a put.
func notifies(code frag.OpCode) bool { return code == frag.OpNotice || code == frag.OpPlaced }

func grants(ep *peer.Endpoint) remote.Link {
	return remote.Link{FragBytesMax: ep.FragBytesMax, InOrder: ep.ID.Counted}
}

// notify delivers the completion notification of a put, when all bytes of the put are written.
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

// A small get consists of a request packet and a reply packet. The request and the reply of
// a small get are handled before the receive state is updated, like a single message
// (ReceiveFast). The reply to a small get does not acknowledge the request. No
// acknowledgement is needed, because the arrival of all bytes proves that the peer has
// accepted the request.

// getFast handles the received packet in rx.deferred, if it is the request of a get or contains all
// bytes of a get. If the packet must be received in the ordinary way, getFast returns false and
// changes nothing.
func (rx *Receiver) getFast(
	c *port.Channel, comp *fabric.Completion, ep *peer.Endpoint, payload []byte,
) bool {
	h := &rx.deferred.hdr
	switch {
	case h.Flags&(frag.FlagPut|frag.FlagOp) == frag.FlagPut:
		o := rx.Remote.WriteAnswer(ep.Remote, h, payload)
		if o == nil {
			return false
		}
		rx.putOff(c)
		rx.deferred.buf = comp.Buf
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
		rx.deferred.buf = comp.Buf
		rx.Sender.AnswerGet(ep, from, h.Op, &g)
		return true
	}
	return false
}
