package peer

import (
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
)

// SendHello sends a Hello or HelloAck on the channel that hello.Probe names. SendHello sends
// nothing if the channel has no room. SendHello sends the packet to the address "to", or to the
// endpoint's peer if "to" is nil.
func (h handshakeHost) SendHello(
	ep *Endpoint, kind frag.Kind, conn uint64, hello *frag.Hello, to []byte,
) {
	all := h.all
	c := h.channel(hello.Probe)
	addr := ep.addrOn(c.Which)
	var b fabric.Buf
	var ok bool
	if to == nil {
		b, ok = all.Buffers.TakeControl(c, addr)
	} else {
		b, addr, ok = all.Port.TakeForAnswer(all.Clock.Now, c, to)
	}
	if !ok {
		return
	}
	// Until the peer has received a Hello of this side, it acknowledges no packet. As long as the peer
	// has acknowledged no packet, the oldest sequence number in flight is the first sequence number of
	// the connection.
	first, _ := ep.Snd.Window()
	head := frag.Header{Kind: kind, Conn: conn, Seq: first}
	if conn != 0 {
		head.Number = ep.Numbers.Take(&all.Buffers.Source, c.Which, 1)
	}
	h.put(c, b, hello.Encode(all.Port.Arena.Bytes(b), &head), addr)
}

// SendReject sends a Reject to the address "to" on the channel "by". If the channel has no room, or
// if Channel.MayAnswer returns false, SendReject sends nothing.
func (h handshakeHost) SendReject(
	by frag.Probe, to []byte, tag uint64, version uint8, r frag.Reject,
) {
	c, now := h.channel(by), h.all.Clock.Now
	if !c.MayAnswer(now) {
		return
	}
	if b, addr, ok := h.all.Port.TakeForAnswer(now, c, to); ok {
		h.put(c, b, frag.EncodeReject(h.all.Port.Arena.Bytes(b), tag, version, r), addr)
	}
}

// SendMoved sends a HelloAck, which names a different module, to the address "to". If the channel
// has no room, SendMoved sends nothing. The argument "tag" of SendMoved is the receiver's
// connection tag.
func (h handshakeHost) SendMoved(to []byte, tag uint64, hello *frag.Hello) {
	c := h.channel(hello.Probe)
	if b, addr, ok := h.all.Port.TakeForAnswer(h.all.Clock.Now, c, to); ok {
		head := frag.Header{Kind: frag.KindHelloAck, Conn: tag, Number: 1} // the tag in it is new
		h.put(c, b, hello.Encode(h.all.Port.Arena.Bytes(b), &head), addr)
	}
}

// SendRetry sends a Retry to the address "to" on the channel "by". SendRetry reports whether the
// Retry was sent, which requires that the channel has room, that packets can be sent to the
// address, and that Channel.MayAnswer returns true.
func (h handshakeHost) SendRetry(
	by frag.Probe, to []byte, tag uint64, retry func() *frag.Retry,
) bool {
	c, now := h.channel(by), h.all.Clock.Now
	if !c.MayAnswer(now) {
		return false
	}
	b, addr, ok := h.all.Port.TakeForAnswer(now, c, to)
	if ok {
		h.put(c, b, retry().Encode(h.all.Port.Arena.Bytes(b), tag), addr)
	}
	return ok
}

// GiveUp cancels the sends that are queued in the fabric for a removed address. The caller must
// call GiveUp before it inserts the address again. Because GiveUp cancels old packets, the first
// packet that the peer receives from this side is the next Hello, which contains the first sequence
// number.
func (h handshakeHost) GiveUp(name []byte) {
	h.all.Port.GiveUp(h.all.Clock.Now, name)
	h.all.Buffers.SettleSends()
}

func (h handshakeHost) channel(p frag.Probe) *port.Channel {
	if p == frag.ProbeData {
		return &h.all.Port.Data
	}
	return &h.all.Port.Command
}

// put adds a handshake packet to a channel's batch.
func (h handshakeHost) put(c *port.Channel, b fabric.Buf, sizeBytes int, to fabric.Addr) {
	h.all.Count[stats.CntSentControl]++
	h.all.Dirty = true
	c.Put(b, sizeBytes, to)
}
