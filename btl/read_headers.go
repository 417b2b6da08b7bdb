package btl

import (
	"errors"
	"time"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// The code below parses the headers of received packets, looks up their endpoints and handles their
// ACKs, and recv.go handles their payloads.

// arrival is a received packet. An arrival is a local variable of the receiving function, and is
// passed only by pointer to functions that do not keep it.
type arrival struct {
	frag.Header
	ep      *Endpoint
	payload []byte // in the receive buffer
}

// deferredReceive describes a packet that receiveFast has delivered. The next call of Progress
// updates the receive state for the packet of a deferredReceive.
type deferredReceive struct {
	on      *port.Channel
	tag     uint64 // of the endpoint, which may have ended meanwhile
	hdr     frag.Header
	buf     fabric.Buf
	pending bool
}

// decode parses a packet's header into in and looks up the endpoint. decode returns false if the
// packet was dropped and counted, or was a handshake packet and is handled.
func (m *Module) decode(c *port.Channel, comp *fabric.Completion, in *arrival) bool {
	m.stats.counters[CntReceived]++
	if comp.Errno != 0 {
		return m.drop(CntRecvErrors)
	}
	if int(comp.Len) > m.port.Arena.Size() {
		return m.drop(CntDropTruncated)
	}
	pkt := m.port.Arena.Bytes(comp.Buf)[:comp.Len]
	payload, err := frag.Decode(pkt, &in.Header)
	if err != nil {
		if errors.Is(err, frag.ErrVersion) {
			m.onForeign(c, comp, pkt)
			return m.drop(CntDropVersion)
		}
		return m.drop(CntDropMalformed)
	}
	in.payload = payload
	if isHandshake[in.Kind&0x0F] {
		m.onHandshake(c, comp, in)
		return false
	}
	ep := m.peers.Lookup(in.Conn)
	if ep == nil {
		return m.drop(CntDropConn)
	}
	if !ep.id.Settled() {
		if ep = m.handshakes.OnPacket(ep); ep == nil {
			return m.drop(CntDropState)
		}
	}
	in.ep = ep
	const agreed = frag.FlagOp | frag.FlagAsk | frag.FlagLater
	if in.Flags&agreed != 0 && !ep.id.Allows(in.Flags) { // the peer has not agreed to the flag
		return m.drop(CntDropMalformed)
	}
	return true
}

// isHandshake reports whether a packet is of a kind that belongs to handshakes.
var isHandshake = [16]bool{
	frag.KindHello: true, frag.KindHelloAck: true, frag.KindReject: true, frag.KindRetry: true,
}

// drop counts a dropped packet in the counter reason, and always returns false.
func (c *counters) drop(reason Counter) bool {
	c.stats.counters[reason]++
	return false
}

// sourceOf returns the source address of a datagram, which is empty if the fabric does not know it.
// The returned slice is valid until the next call of sourceOf.
func (m *Module) sourceOf(c *port.Channel, comp *fabric.Completion) []byte {
	return c.AppendSource(m.seen[:0], comp)
}

// onHandshake handles a received Hello, HelloAck, Retry or Reject.
func (m *Module) onHandshake(c *port.Channel, comp *fabric.Completion, in *arrival) {
	head, hello := &m.shaking.head, &m.shaking.hello
	*head, *hello = in.Header, frag.Hello{}
	ok, by := false, frag.Probe(c.Which())
	switch in.Kind {
	case frag.KindReject:
		r := frag.DecodeReject(head, in.payload)
		ok = m.endRestarted(in.Conn, r, m.sourceOf(c, comp)) || m.handshakes.OnReject(head, r)
	case frag.KindRetry:
		var retry frag.Retry
		ok = frag.DecodeRetry(in.payload, &retry) == nil && m.handshakes.OnRetry(by, head, &retry)
	case frag.KindHello:
		ok = frag.DecodeHello(in.payload, hello) == nil &&
			m.handshakes.OnHello(by, head, hello, frag.FragHeaderBytes+len(in.payload),
				m.sourceOf(c, comp))
	default:
		ok = frag.DecodeHello(in.payload, hello) == nil &&
			m.handshakes.OnHelloAck(by, head, hello)
	}
	if ok {
		m.stats.counters[CntRecvHandshake]++
	} else {
		m.stats.counters[CntDropHandshake]++
	}
}

// onForeign answers a Hello of another protocol version with a Reject.
func (m *Module) onForeign(c *port.Channel, comp *fabric.Completion, pkt []byte) {
	f, ok := frag.ForeignHello(pkt)
	if !ok {
		return
	}
	to := f.CommandName
	if source := m.sourceOf(c, comp); len(source) > 0 {
		to = source
	} else {
		c = &m.port.Command // the Hello has the address of this channel
	}
	m.handshakes.Reject(frag.Probe(c.Which()), to, f.Tag, f.Version,
		frag.Reject{Reason: frag.RejectVersion, Nonce: f.Nonce})
}

// receive handles a received packet and delivers the fragment that the packet completes.
func (m *Module) receive(c *port.Channel, comp *fabric.Completion) {
	var in arrival
	m.rxVia = c.Which()
	if !m.decode(c, comp, &in) {
		return
	}
	if isAside[in.Kind&0x0F] {
		m.receiveAside(c, &in)
		return
	}
	if m.onLastWord(&in) || !m.admit(&in) {
		return
	}
	switch in.Kind {
	case frag.KindAck:
		m.stats.counters[CntRecvAck]++
		if in.Flags&frag.FlagAsk != 0 {
			m.askedForAck(&in)
		}
	case frag.KindNack:
		m.stats.counters[CntRecvNack]++
		m.nacked(&in)
	default:
		m.accept(&in)
	}
}

// receiveWhole handles a packet that was assembled from Parts (slices of a packet).
func (m *Module) receiveWhole(part *arrival, whole []byte) {
	in := arrival{ep: part.ep}
	var err error
	in.payload, err = frag.Decode(whole, &in.Header)
	if err != nil || !in.Kind.HasSeq() || in.Conn != part.Conn || in.Seq != part.Seq ||
		!in.ep.id.Allows(in.Flags) {
		m.drop(CntDropMalformed)
		return
	}
	if m.admit(&in) {
		m.accept(&in)
	}
}

// onSack processes a selective ACK. onSack returns false if the ACK is invalid.
func (m *Module) onSack(in *arrival) bool {
	ep := in.ep
	if !ep.id.Selective {
		return false
	}
	s := &m.sack
	frag.DecodeSack(in.payload, s)
	if !m.wasNumberOf(ep, s.Last, s.LastNumber) {
		return false // the peer cannot have received that packet
	}
	words := m.sackWords[:]
	done, verdict := ep.snd.OnSack(m.clock.Now, in.Ack, in.Credit, &reliability.Sack{
		Words: words[:s.Words(words)], Last: s.Last, Copies: s.Copies,
		Delay:  time.Duration(s.DelayUs) * time.Microsecond,
		Unread: time.Duration(s.UnreadUs)*time.Microsecond + m.rxQueuedMax,
	}, m.done[:0])
	return m.afterAck(ep, &in.Header, done, verdict)
}

// wasNumberOf reports whether a packet number may belong to a transmission of the packet
// with sequence number n. For a packet in flight that was sent once, wasNumberOf accepts
// only its actual packet number. wasNumberOf detects acknowledgements of packets that the
// peer has not received, because packet numbers are skipped at random. For a retransmitted
// or acknowledged packet, any used packet number of either channel is valid, because any of
// its transmissions may have arrived.
func (m *Module) wasNumberOf(ep *Endpoint, n seq.Num, number uint32) bool {
	if t, ok := ep.snd.Token(n); ok && m.recovery.Resends(t) == 0 {
		return frag.NumberOf(m.port.Arena.Bytes(segBuf(t))) == number
	}
	return ep.numbers.Sent(number, viaCommand) || ep.numbers.Sent(number, viaData)
}

// receiveFast delivers a fragment of one packet, or a put with its notification, before the receive
// state is updated. If the packet does not qualify, receiveFast returns false and changes nothing.
func (m *Module) receiveFast(c *port.Channel, comp *fabric.Completion) bool {
	if comp.Errno != 0 || int(comp.Len) > m.port.Arena.Size() || m.booksFirst {
		return false
	}
	d := &m.deferred // nothing is deferred now, so the header is decoded in place
	h := &d.hdr
	payload, err := frag.Decode(m.port.Arena.Bytes(comp.Buf)[:comp.Len], h)
	if err != nil || h.Kind != frag.KindFrag {
		return false
	}
	placed := h.Flags&(frag.FlagPut|frag.FlagOp) != 0
	ep := m.peers.Lookup(h.Conn)
	if ep == nil || ep.id.State() != stateConnected || ep.bye.Seen() || !ep.admissible(h) {
		return false
	}
	if placed && h.OpCode != frag.OpPlaced {
		return m.getFast(c, comp, ep, payload)
	}
	if h.Tag > frag.TagUserMax || m.handlers[h.Tag] == nil {
		return false
	}
	if placed {
		if !ep.id.Operates {
			return false
		}
		sizeBytes := len(payload) - int(h.OpBytes)
		var ok bool
		if payload, ok = m.remote.WritePlaced(ep.remote, h, payload); !ok {
			return false
		}
		m.stats.counters[CntRecvPayloadBytes] += uint64(sizeBytes)
	}
	m.putOff(c)
	m.stats.counters[CntFastReceives]++
	m.port.Keeper.Hold(comp.Buf)
	m.deliver(ep, h.Tag, payload)
	d.buf = m.port.Keeper.Held()
	return true
}

// putOff leaves the update of the receive state, for the packet whose header is in m.deferred, to
// the next call of Progress.
func (m *Module) putOff(c *port.Channel) {
	d := &m.deferred
	c.Received(1)
	d.on, d.tag, d.pending = c, d.hdr.Conn, true
	m.stats.counters[CntReceived]++
	m.dirty = true
}

// finishDeferred updates the receive state for the packet that receiveFast has delivered in the
// previous call of Progress.
func (m *Module) finishDeferred() {
	d := &m.deferred
	if !d.pending {
		return
	}
	d.pending = false
	m.rxVia = d.on.Which()
	d.on.Return(d.buf)
	ep := m.peers.Lookup(d.tag)
	if ep == nil || ep.id.State() != stateConnected {
		m.stats.counters[CntRecvFrag]++
		return
	}
	if ep.id.Handshake() != nil {
		m.handshakes.OnPacket(ep)
	}
	if d.hdr.Flags&frag.FlagAck != 0 && !m.onAck(ep, &d.hdr, false) {
		m.stats.counters[CntRecvFrag]++ // the ACK has become invalid since receiveFast
		return
	}
	ep.life.Heard(m.clock.Unpaused, int(m.rxVia))
	m.accepted(ep, &d.hdr)
}

func nextRecord(pack []byte) (tag uint8, data, rest []byte) { return frag.NextRecord(pack) }

// seqOf returns the sequence number of the packet in a send buffer.
func (m *Module) seqOf(t reliability.Token) seq.Num {
	return frag.SeqOf(m.port.Arena.Bytes(segBuf(t)))
}
