package btl

import (
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
)

// viaOf maps the probe that a Hello carries to its channel.
func viaOf(p frag.Probe) via {
	if p == frag.ProbeData {
		return viaData
	}
	return viaCommand
}

// askHello sends a Hello by a channel, with the peer's tag if it is known.
func (m *Module) askHello(ep *Endpoint, p frag.Probe) { m.askHelloOf(ep, p, ep.id.Peer.Tag) }

// askHelloOf sends a Hello by a channel to the peer's endpoint with the tag conn. With 0 any may
// answer, and this side must prove that it receives at its addresses.
func (m *Module) askHelloOf(ep *Endpoint, p frag.Probe, conn uint64) {
	hello := m.helloOf(ep, p)
	if hs := ep.hs; hs != nil {
		hello.Nonce = hs.Nonce(p)
		if conn == 0 {
			hs.Show(&hello)
		}
	}
	if hello.Proven&p.Bit() == 0 {
		hello.Pad() // the answer may be no longer
	}
	m.sendHello(ep, frag.KindHello, conn, &hello, ep.addrOn(viaOf(p)))
}

// askFromHalfOpen sends a Hello from a half-open endpoint to a peer that sends data without having
// confirmed the connection: its answer returns the nonce and its genuine parameters.
func (m *Module) askFromHalfOpen(ep *Endpoint) {
	if ep.hs.MayAsk(m.nowUnpaused) {
		m.askHello(ep, frag.ProbeCommand)
	}
}

// hurry sends the unanswered Hellos early, before their timer, if the handshake allows that.
func (m *Module) hurry(ep *Endpoint) {
	if ep.state == stateConnecting && ep.hs.MayHurry(m.nowUnpaused) {
		m.sendProbes(ep)
	}
}

// askLife probes whether another incarnation has taken the address of a silent peer, by a Hello
// without a tag that expects the known incarnation. Another incarnation rejects it, and returns the
// nonce; the known one keeps no state from it.
func (m *Module) askLife(ep *Endpoint) {
	if ep.state != stateConnected || ep.hs != nil || !ep.life.MayAskLife(m.nowUnpaused) {
		return
	}
	nonce := ep.life.LifeNonce()
	if nonce == 0 {
		nonce = m.random()
	}
	ep.life.AskedLife(m.nowUnpaused, nonce)
	hello := m.helloOf(ep, frag.ProbeCommand)
	hello.Expected, hello.Nonce = ep.id.Peer.Incarnation, nonce
	m.sendHello(ep, frag.KindHello, 0, &hello, ep.cmdAddr)
}

// saysOtherLife says whether a Reject answers the probe of askLife: it comes from the peer's
// address, and the known incarnation was not heard since. An attacker who sees the probe can make
// another module reject it, but not from the peer's address.
func (ep *Endpoint) saysOtherLife(r frag.Reject, source []byte) bool {
	return r.Reason == frag.RejectStale && ep.life.AnswersLife(r.Nonce) &&
		(len(source) == 0 || string(source) == ep.id.Addr)
}

// answerHello answers the peer's Hello by the same channel. If the address is not proven, the
// answer is no longer than the Hello; an answer to a Hello with cookies goes to the address that
// the cookies are for, which may differ from the one that this side was told.
func (m *Module) answerHello(ep *Endpoint, asked *frag.Hello, askedBytes int, shown []byte) {
	hello, to := m.helloOf(ep, asked.Probe), ep.addrOn(viaOf(asked.Probe))
	hello.Nonce = asked.Nonce
	if hs := ep.hs; hs != nil && hs.Proven()&asked.Probe.Bit() == 0 {
		if hello.Bytes() > askedBytes {
			return
		}
		if shown != nil {
			var err error
			if to, err = m.port.InsertForAnswer(m.now, shown); err != nil {
				return
			}
		}
	}
	m.sendHello(ep, frag.KindHelloAck, asked.Tag, &hello, to)
}

// helloOf fills a Hello with this side's parameters for a peer.
func (m *Module) helloOf(ep *Endpoint, p frag.Probe) frag.Hello {
	hello := frag.Hello{
		Incarnation: m.incarnation, Tag: ep.id.Tag,
		CommandName: m.told[0], DataName: m.told[1], Label: m.label, Features: m.features(),
		WindowPkts: uint32(m.rules.WindowPackets), FragBytesMax: m.cfg.FragmentBytesMax,
		AckDelayUs: uint32(m.rules.AckDelay.Microseconds()), AwayMs: uint32(m.cfg.Away.Milliseconds()),
		MTUBytes: uint16(m.port.Data.MTUBytes()), CommandBytes: uint16(m.port.Command.MTUBytes()),
		Credit: helloCredit, VersionMin: frag.Version, VersionMax: frag.Version, Probe: p,
		Proven: frag.ProvenAll,
	}
	if hs := ep.hs; hs != nil {
		hello.Expected, hello.Proven = hs.Expected(), hs.Proven()
	}
	if ep.state == stateAccepting { // what it says would confirm a peer that it knows nothing of yet
		hello.Proven = 0
	}
	return hello
}

// sendHello sends a Hello or HelloAck to an address by its channel, if there is room.
func (m *Module) sendHello(
	ep *Endpoint, kind frag.Kind, conn uint64, hello *frag.Hello, to fabric.Addr,
) {
	c := &m.port.Command
	if hello.Probe == frag.ProbeData {
		c = &m.port.Data
	}
	b, ok := m.takeControl(c, to)
	if !ok {
		return
	}
	// A peer to which this Hello is new has acknowledged nothing: the oldest number in flight is
	// the connection's first. That holds even if this side is connected: the peer may have begun
	// its handshake again since (adopt, restart).
	first, _ := ep.snd.Window()
	h := frag.Header{Kind: kind, Conn: conn, Seq: first}
	if conn != 0 {
		h.Number = ep.numbers.take(m, c.Which(), 1)
	}
	n := hello.Encode(m.port.Arena.Bytes(b), &h)
	m.stats.counters[CntSentControl]++
	c.Put(b, n, to)
}

// reject sends a Reject, no longer than the Hello that it answers, to an address, if the rules
// allow one and there is room.
func (m *Module) reject(c *port.Channel, to []byte, tag uint64, version uint8, r frag.Reject) {
	if !m.strangers.MayReject(m.pass, frag.Probe(c.Which()), to) {
		return
	}
	r.VersionMin, r.VersionMax = frag.Version, frag.Version
	addr, err := m.port.InsertForAnswer(m.now, to)
	if err != nil {
		return
	}
	if b, ok := m.takeControl(c, addr); ok {
		n := frag.EncodeReject(m.port.Arena.Bytes(b), tag, version, r)
		m.stats.counters[CntSentControl]++
		c.Put(b, n, addr)
	}
}

// retry sends a Retry to an unknown peer whose Hello proves no address, and says whether it did.
func (m *Module) retry(c *port.Channel, hello *frag.Hello, to []byte, helloBytes int) bool {
	if !m.strangers.MayRetry(m.pass, len(to), helloBytes) {
		return false
	}
	addr, err := m.port.InsertForAnswer(m.now, to)
	if err != nil {
		return false
	}
	r := m.strangers.Retry(m.nowUnpaused, hello, to)
	b, ok := m.takeControl(c, addr)
	if !ok {
		return false
	}
	n := r.Encode(m.port.Arena.Bytes(b), hello.Tag)
	m.stats.counters[CntSentControl]++
	c.Put(b, n, addr)
	return true
}
