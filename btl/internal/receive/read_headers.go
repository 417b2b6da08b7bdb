package receive

import (
	"errors"
	"time"

	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// The code in this file parses the headers of received packets, looks up the endpoints of the
// packets and processes the ACKs in the packets. The payloads of packets are processed in recv.go.

// The type "arrival" is a received packet. Each arrival is a local variable of the receiving
// function. A pointer to an arrival is passed only to functions that do not keep the pointer.
type arrival struct {
	frag.Header
	ep      *peer.Endpoint
	payload []byte // in the receive buffer
}

// deferredReceive describes a packet that ReceiveFast has delivered, and for which the next call of
// Progress updates the receive state.
type deferredReceive struct {
	on      *port.Channel
	tag     uint64 // connection tag of an endpoint that may have ended since ReceiveFast
	hdr     frag.Header
	buf     fabric.Buf
	Pending bool
}

// decode parses a packet's header into the arrival "in", and looks up the endpoint. decode returns
// true if the caller must process the packet. decode returns false for a handshake packet, which
// decode processes itself, and for a packet that decode drops and counts.
func (rx *Receiver) decode(c *port.Channel, comp *fabric.Completion, in *arrival) bool {
	rx.Count[stats.CntReceived]++
	if comp.Errno != 0 {
		return rx.drop(stats.CntRecvErrors)
	}
	if int(comp.Len) > rx.Port.Arena.Size() {
		return rx.drop(stats.CntDropTruncated)
	}
	pkt := rx.Port.Arena.Bytes(comp.Buf)[:comp.Len]
	payload, err := frag.Decode(pkt, &in.Header)
	if err != nil {
		if errors.Is(err, frag.ErrVersion) {
			rx.onForeign(c, comp, pkt)
			return rx.drop(stats.CntDropVersion)
		}
		return rx.drop(stats.CntDropMalformed)
	}
	in.payload = payload
	if isHandshake[in.Kind&0x0F] {
		rx.OnHandshake(c, comp, &in.Header, payload)
		return false
	}
	ep := rx.Peers.Lookup(in.Conn)
	if ep == nil {
		return rx.drop(stats.CntDropConn)
	}
	if !ep.ID.Settled() {
		if ep = rx.Handshakes.OnPacket(ep); ep == nil {
			return rx.drop(stats.CntDropState)
		}
	}
	in.ep = ep
	const agreed = frag.FlagOp | frag.FlagAsk | frag.FlagLater
	if in.Flags&agreed != 0 && !ep.ID.Allows(in.Flags) { // the peer has not agreed to the flag
		return rx.drop(stats.CntDropMalformed)
	}
	return true
}

// isHandshake is true for each kind of packet that belongs to handshakes.
var isHandshake = [16]bool{
	frag.KindHello: true, frag.KindHelloAck: true, frag.KindReject: true, frag.KindRetry: true,
}

// drop counts a dropped packet in the counter "reason", and always returns false.
func (rx *Receiver) drop(reason stats.Counter) bool {
	rx.Count[reason]++
	return false
}

// OnHandshake handles a received Hello, HelloAck, Retry or Reject, with its header and
// payload.
func (rx *Receiver) OnHandshake(c *port.Channel, comp *fabric.Completion, h *frag.Header,
	payload []byte,
) {
	head, hello := &rx.shaking.head, &rx.shaking.hello
	*head, *hello = *h, frag.Hello{}
	ok, by := false, frag.Probe(c.Which)
	switch h.Kind {
	case frag.KindReject:
		r := frag.DecodeReject(head, payload)
		ok = rx.Endings.EndRestarted(h.Conn, r, c.AppendSource(rx.seen[:0], comp)) ||
			rx.Handshakes.OnReject(head, r)
	case frag.KindRetry:
		var retry frag.Retry
		ok = frag.DecodeRetry(payload, &retry) == nil && rx.Handshakes.OnRetry(by, head, &retry)
	case frag.KindHello:
		ok = frag.DecodeHello(payload, hello) == nil &&
			rx.Handshakes.OnHello(by, head, hello, frag.FragHeaderBytes+len(payload),
				c.AppendSource(rx.seen[:0], comp))
	default:
		ok = frag.DecodeHello(payload, hello) == nil &&
			rx.Handshakes.OnHelloAck(by, head, hello)
	}
	if ok {
		rx.Count[stats.CntRecvHandshake]++
	} else {
		rx.Count[stats.CntDropHandshake]++
	}
}

// onForeign sends a Reject as the reply to a Hello of a protocol version that this side does not
// support.
func (rx *Receiver) onForeign(c *port.Channel, comp *fabric.Completion, pkt []byte) {
	f, ok := frag.ForeignHello(pkt)
	if !ok {
		return
	}
	to := f.CommandName
	if source := c.AppendSource(rx.seen[:0], comp); len(source) > 0 {
		to = source
	} else {
		c = &rx.Port.Command // f.CommandName is an address for the command channel
	}
	rx.Handshakes.Reject(frag.Probe(c.Which), to, f.Tag, f.Version,
		frag.Reject{Reason: frag.RejectVersion, Nonce: f.Nonce})
}

// receive handles a received packet and delivers the fragment that the packet completes.
func (rx *Receiver) receive(c *port.Channel, comp *fabric.Completion) {
	var in arrival
	rx.via = c.Which
	if !rx.decode(c, comp, &in) {
		return
	}
	if isAside[in.Kind&0x0F] {
		rx.asides.receive(c, &in)
		return
	}
	if rx.onLastWord(&in) || !rx.admit(&in) {
		return
	}
	switch in.Kind {
	case frag.KindAck:
		rx.Count[stats.CntRecvAck]++
		if in.Flags&frag.FlagAsk != 0 {
			rx.askedForAck(&in)
		}
	case frag.KindNack:
		rx.Count[stats.CntRecvNack]++
		rx.nacked(&in)
	default:
		rx.accept(&in)
	}
}

// receiveWhole handles a packet that was assembled from Parts (slices of a packet).
func (rx *Receiver) receiveWhole(part *arrival, whole []byte) {
	in := arrival{ep: part.ep}
	var err error
	in.payload, err = frag.Decode(whole, &in.Header)
	if err != nil || !in.Kind.HasSeq() || in.Conn != part.Conn || in.Seq != part.Seq ||
		!in.ep.ID.Allows(in.Flags) {
		rx.drop(stats.CntDropMalformed)
		return
	}
	if rx.admit(&in) {
		rx.accept(&in)
	}
}

// onSack processes a selective ACK, and reports whether the ACK is valid.
func (rx *Receiver) onSack(in *arrival) bool {
	ep := in.ep
	if !ep.ID.Selective {
		return false
	}
	s := &rx.sack
	frag.DecodeSack(in.payload, s)
	if !rx.Sent.WasNumberOf(ep, s.Last, s.LastNumber) {
		return false // the peer cannot have received that packet
	}
	words := rx.sackWords[:]
	return rx.Sent.OnSack(ep, &in.Header, &reliability.Sack{
		Words: words[:s.Words(words)], Last: s.Last, Copies: s.Copies,
		Delay:  time.Duration(s.DelayUs) * time.Microsecond,
		Unread: time.Duration(s.UnreadUs)*time.Microsecond + rx.queuedMost,
	})
}

// ReceiveFast delivers a fragment that arrived in one packet, or a put with its notification,
// before the receive state is updated. ReceiveFast reports whether it has handled the packet. If
// the receive state must be updated before the packet is handled, ReceiveFast changes nothing and
// returns false.
func (rx *Receiver) ReceiveFast(c *port.Channel, comp *fabric.Completion) bool {
	if comp.Errno != 0 || int(comp.Len) > rx.Port.Arena.Size() || rx.booksFirst {
		return false
	}
	d := &rx.Deferred // no packet is deferred now, so the header is decoded in place
	h := &d.hdr
	payload, err := frag.Decode(rx.Port.Arena.Bytes(comp.Buf)[:comp.Len], h)
	if err != nil || h.Kind != frag.KindFrag {
		return false
	}
	placed := h.Flags&(frag.FlagPut|frag.FlagOp) != 0
	ep := rx.Peers.Lookup(h.Conn)
	if ep == nil || ep.ID.State != peer.StateConnected || ep.Bye.Seen || !admissible(ep, h) {
		return false
	}
	if placed && h.OpCode != frag.OpPlaced {
		return rx.getFast(c, comp, ep, payload)
	}
	if h.Tag > frag.TagUserMax || rx.handlers[h.Tag] == nil {
		return false
	}
	if placed {
		if !ep.ID.Operates {
			return false
		}
		sizeBytes := len(payload) - int(h.OpBytes)
		var ok bool
		if payload, ok = rx.Remote.WritePlaced(ep.Remote, h, payload); !ok {
			return false
		}
		rx.Count[stats.CntRecvPayloadBytes] += uint64(sizeBytes)
	}
	rx.putOff(c)
	rx.Count[stats.CntFastReceives]++
	rx.Port.Keeper.Hold(comp.Buf)
	rx.deliver(ep, h.Tag, payload)
	d.buf = rx.Port.Keeper.Held()
	return true
}

// putOff postpones the update of the receive state for the packet in rx.Deferred to the next call
// of Progress.
func (rx *Receiver) putOff(c *port.Channel) {
	d := &rx.Deferred
	c.Received(1)
	d.on, d.tag, d.Pending = c, d.hdr.Conn, true
	rx.Count[stats.CntReceived]++
	rx.MarkDirty()
}

// FinishDeferred updates the receive state for the packet that ReceiveFast has delivered in the
// previous call of Progress.
func (rx *Receiver) FinishDeferred() {
	d := &rx.Deferred
	if !d.Pending {
		return
	}
	d.Pending = false
	rx.via = d.on.Which
	d.on.Return(d.buf)
	ep := rx.Peers.Lookup(d.tag)
	if ep == nil || ep.ID.State != peer.StateConnected {
		rx.Count[stats.CntRecvFrag]++
		return
	}
	if ep.ID.Handshake != nil {
		rx.Handshakes.OnPacket(ep)
	}
	if d.hdr.Flags&frag.FlagAck != 0 && !rx.Sent.OnAck(ep, &d.hdr, false) {
		rx.Count[stats.CntRecvFrag]++ // the ACK has become invalid since ReceiveFast
		return
	}
	ep.Life.Heard(rx.Clock.Unpaused, int(rx.via))
	rx.accepted(ep, &d.hdr)
}

// Handle processes one completion of channel c.
func (rx *Receiver) Handle(c *port.Channel, comp *fabric.Completion) {
	if comp.Op == fabric.OpSend {
		rx.MarkDirty()
		rx.Sched.SetBlocked(false)
		if comp.Errno != 0 {
			rx.Count[stats.CntSendCompletionErrors]++
			rx.Buffers.BreakOff(comp.Buf)
		}
		c.SendDone(comp.Buf)
		rx.Buffers.SettleSends()
		return
	}
	c.Received(1)
	rx.Port.Keeper.Hold(comp.Buf)
	rx.receive(c, comp)
	c.Return(rx.Port.Keeper.Held())
}
