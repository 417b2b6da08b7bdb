package peer

import (
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
)

// SendHello sends a Hello or HelloAck on the channel that hello.Probe names, if there is
// room. The Hello is sent to the address to, or to the endpoint's peer if to is nil.
func (h handshakeHost) SendHello(
	ep *Endpoint, kind frag.Kind, conn uint64, hello *frag.Hello, to []byte,
) {
	all := h.all
	c := h.channel(hello.Probe)
	addr := ep.addrOn(c.Which())
	if to != nil {
		var err error
		if addr, err = all.Port.InsertForAnswer(all.Clock.Now, to); err != nil {
			return
		}
	}
	b, ok := all.Buffers.TakeControl(c, addr)
	if !ok {
		return
	}
	// If the peer has not received any Hello of this side, it has acknowledged no packet, so the
	// oldest number in flight is the first number of the connection.
	first, _ := ep.Snd.Window()
	head := frag.Header{Kind: kind, Conn: conn, Seq: first}
	if conn != 0 {
		head.Number = ep.Numbers.Take(&all.Buffers.Source, c.Which(), 1)
	}
	h.put(c, b, hello.Encode(all.Port.Arena.Bytes(b), &head), addr)
}

// SendReject sends a Reject to an address (to) through a channel (by), if there is room.
func (h handshakeHost) SendReject(
	by frag.Probe, to []byte, tag uint64, version uint8, r frag.Reject,
) {
	addr, err := h.all.Port.InsertForAnswer(h.all.Clock.Now, to)
	if err != nil {
		return
	}
	c := h.channel(by)
	if b, ok := h.all.Buffers.TakeControl(c, addr); ok {
		h.put(c, b, frag.EncodeReject(h.all.Port.Arena.Bytes(b), tag, version, r), addr)
	}
}

// SendMoved sends a HelloAck, which names another module, to an address (to), if there is room. The
// argument tag is the receiver's connection tag.
func (h handshakeHost) SendMoved(to []byte, tag uint64, hello *frag.Hello) {
	addr, err := h.all.Port.InsertForAnswer(h.all.Clock.Now, to)
	if err != nil {
		return
	}
	c := h.channel(hello.Probe)
	if b, ok := h.all.Buffers.TakeControl(c, addr); ok {
		head := frag.Header{Kind: frag.KindHelloAck, Conn: tag, Number: 1} // the tag in it is new
		h.put(c, b, hello.Encode(h.all.Port.Arena.Bytes(b), &head), addr)
	}
}

// SendRetry sends a Retry to an address (to) through a channel (by). SendRetry returns
// false if the channel has no room, or if nothing can be sent to the address.
func (h handshakeHost) SendRetry(
	by frag.Probe, to []byte, tag uint64, retry func() *frag.Retry,
) bool {
	addr, err := h.all.Port.InsertForAnswer(h.all.Clock.Now, to)
	if err != nil {
		return false
	}
	r, c := retry(), h.channel(by)
	b, ok := h.all.Buffers.TakeControl(c, addr)
	if ok {
		h.put(c, b, r.Encode(h.all.Port.Arena.Bytes(b), tag), addr)
	}
	return ok
}

// GiveUp cancels the sends queued in the fabric for a removed address that is about to be
// inserted again. The next Hello to this address contains the first sequence number that the peer
// must expect.
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
	c.Put(b, sizeBytes, to)
}
