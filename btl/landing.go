package btl

import (
	"errors"

	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// A large fragment is received without a copy of this side's making where the provider can be told
// where to put what arrives: before each poll of the data channel it is told the place of the chunk
// that is expected next, behind the latest one that came, or at the beginning of the idle buffer
// that the next fragment will get. What it puts there counts only if it turns out to be just those
// chunks. Anything else that came with them is put together in its buffer again, and goes the
// ordinary way. For that the landed bytes must still be there, so nothing may be written to the
// fragment's memory, no other fragment begun, no handler called and no endpoint ended before: the
// first packet of a batch that is not as expected has all those behind it put together.

// landing is what the data channel expects.
type landing struct {
	lander fabric.Lander // nil: the provider cannot do it
	told   bool          // it has been told a landing
	pause  int           // polls without a landing, after one that was of no use
	ended  bool          // a fragment of large packets is whole, and nothing was polled since

	tag    uint64 // of the endpoint whose chunk came last; 0: none is expected
	fragID uint32
	offset uint32 // of the next one
	begins bool   // it would be the first of its fragment
	mem    []byte // what was told: from there on

	lastTag   uint64 // of the endpoint whose large fragment became whole last
	lastBytes uint32 // and the fragment's size
	guessMin  uint32 // size from which on the beginning of the next one is expected
}

// guessBytesMin is the size from which on it saves time that the first chunks of a fragment land,
// too. Of smaller ones a poll without a landing takes in several at once, which saves more.
const guessBytesMin = 32 << 10

// landingBytesMax bounds a landing.
const landingBytesMax = 1 << 20

// landingPause is the number of polls without a landing after one that had packets in it which were
// not expected: of two peers that both send large fragments, say.
const landingPause = 2

// aloneBytesMin is the size from which on packets come one by one: of smaller ones a poll may bring
// many that the network has sent as one, whatever it asks for.
const aloneBytesMin = 16 << 10

// came notes that the chunk in h has come, which may have made its fragment whole.
func (l *landing) came(ep *Endpoint, h *frag.Header, whole bool) {
	if whole {
		l.over(ep, h)
	} else {
		l.expect(h)
	}
}

// over notes that the chunk in h has made a large fragment whole. After two of one size and sender
// a third is expected: then its first chunks land, too, in the buffer that it will get.
func (l *landing) over(ep *Endpoint, h *frag.Header) {
	l.ended = l.lander != nil && ep.mtu >= aloneBytesMin
	l.begins = l.lander != nil && h.SizeBytes >= l.guessMin &&
		l.lastTag == h.Conn && l.lastBytes == h.SizeBytes
	l.lastTag, l.lastBytes = h.Conn, h.SizeBytes
	l.tag = 0
	if l.begins {
		l.tag, l.fragID, l.offset = h.Conn, h.FragID+1, 0
	}
}

// expect notes that the chunk in h has come, and its fragment is not whole.
func (l *landing) expect(h *frag.Header) {
	l.tag, l.fragID, l.offset = h.Conn, h.FragID, h.OffsetBytes+uint32(h.PayloadLen)
	l.begins = false
}

// pollLanding is poll for the data channel while large fragments arrive.
func (m *Module) pollLanding(c *channel, limit int) (got int, err error) {
	l := &m.landing
	if err = m.land(limit > 1); err != nil {
		return 0, err
	}
	if got, err = c.ep.Poll(c.comps[:limit]); err != nil || l.mem == nil {
		return got, err
	}
	l.ended = false
	// What the provider could not report yet lies in the landing too: it is taken now, before anything
	// is done with the memory. One at a time, for a poll that finds room takes in further datagrams.
	// There are no more than receive buffers and sends posted, which is what comps holds.
	for n := got; n == limit; got += n {
		if l.lander.Land(nil, 0) {
			l.told = false
			break
		}
		if limit = 1; got == len(c.comps) {
			return got, errSurplus
		}
		if n, err = c.ep.Poll(c.comps[got:][:limit]); err != nil {
			return got, err
		}
	}
	return got, nil
}

// land tells the provider where the next chunk belongs, if one is expected.
func (m *Module) land(bulk bool) error {
	l := &m.landing
	l.mem = nil
	if l.pause > 0 {
		l.pause--
		bulk = false
	}
	if bulk && l.tag != 0 {
		ep := m.lookup(l.tag)
		switch {
		case ep == nil || ep.state != stateConnected:
			l.tag, l.begins = 0, false
		case l.begins:
			if l.mem = ep.asm.Anticipate(l.lastBytes, landingBytesMax); l.mem == nil {
				l.tag, l.begins = 0, false
			}
		default:
			l.mem = ep.asm.Landing(l.fragID, l.offset, landingBytesMax)
		}
	}
	if l.mem == nil && !l.told {
		return nil
	}
	if l.lander.Land(l.mem, frag.ChunkHeaderBytes) {
		l.told = l.mem != nil
		return nil
	}
	// Datagrams of polls without a landing may wait; of one with a landing none is left.
	l.mem = nil
	if l.told {
		return errSurplus
	}
	return nil
}

// errSurplus is of a provider that breaks the contract of package fabric.
var errSurplus = errors.New("more completions than were posted")

// handleLanded books a batch of which some may have landed.
func (m *Module) handleLanded(c *channel, comps []fabric.Completion) {
	base := m.landing.offset
	for len(comps) > 0 {
		if comps[0].Op == fabric.OpSend {
			m.handle(c, &comps[0])
			comps = comps[1:]
			continue
		}
		count := m.receiveLanded(comps, base)
		if count == 0 {
			m.rescue(comps)
			for i := range comps {
				m.handle(c, &comps[i])
			}
			return
		}
		c.receiving -= count
		for i := range comps[:count] {
			c.repost = append(c.repost, comps[i].Buf)
		}
		comps = comps[count:]
	}
}

// rescue puts what landed back behind the rest of its packet. A guess at what begins is given up by
// whatever comes instead, landed or not: lone packets are to be received fast again.
func (m *Module) rescue(comps []fabric.Completion) {
	l := &m.landing
	guess := l.begins
	if guess && len(comps) > 0 {
		l.tag, l.begins = 0, false
	}
	for i := range comps {
		comp := &comps[i]
		if comp.Landed == 0 || comp.Op != fabric.OpRecv {
			continue
		}
		if !guess {
			l.pause = landingPause
		}
		landed := comp.Landed
		comp.Landed = 0
		if b := m.arena.Bytes(comp.Buf); int(comp.Len) <= len(b) { // else it is dropped as truncated
			copy(b[comp.Len-landed:comp.Len], l.mem[comp.LandedOff:])
		}
	}
}

// receiveLanded takes over a chunk whose payload stands in its place already, with those that
// follow it as one run, and returns how many packets that were. None: the first is not the chunk
// that was expected there, or something stands against it, and nothing has changed. What comes
// behind them in the batch is put together before anything can write to the landing.
func (m *Module) receiveLanded(comps []fabric.Completion, base uint32) (count int) {
	var in arrival
	l, h := &m.landing, &in.Header
	if l.mem == nil || !m.decodeLanded(&comps[0], &in) ||
		h.Conn != l.tag || h.FragID != l.fragID || h.OffsetBytes != base+comps[0].LandedOff {
		return 0
	}
	ep := m.lookup(h.Conn)
	if ep == nil || ep.state != stateConnected || ep.hs != nil || len(ep.refusals) > 0 ||
		m.handlers[h.Tag] == nil || ep.rcv.Check(h.Seq) != reliability.Accept ||
		h.Flags&frag.FlagAck != 0 && !ep.snd.Plausible(h.Ack) {
		return 0
	}
	count = 1
	if h.Seq == ep.rcv.Next() && ep.rcv.Held() == 0 { // so each is the next one in its turn
		count += m.following(&in, comps)
	}
	msg, err := m.addLanded(ep, h, count)
	if err != nil {
		return 0
	}
	m.stats.counters[CntReceived] += uint64(count)
	m.stats.counters[CntLanded] += uint64(count)
	if h.Flags&frag.FlagAck != 0 {
		m.onAck(ep, h, false)
	}
	m.heard(ep)
	m.acceptedRun(ep, h, count)
	h.OffsetBytes += uint32(count-1) * uint32(h.PayloadLen) // the last one's
	if msg == nil && !ep.byeSeen {
		l.expect(h)
		return count
	}
	m.rescue(comps[count:])
	l.tag = 0
	if msg != nil {
		l.over(ep, h)
		m.deliver(ep, msg.Tag, msg.Bytes)
		msg.Release()
	} else {
		l.expect(h)
	}
	m.checkBye(ep)
	return count
}

// addLanded adds count chunks that have landed, of which h is the first.
func (m *Module) addLanded(ep *Endpoint, h *frag.Header, count int) (*frag.Message, error) {
	l := &m.landing
	if !l.begins {
		return ep.asm.AddLanded(h, int(h.PayloadLen), count-1)
	}
	msg, err := ep.asm.BeginLanded(h, int(h.PayloadLen), count-1, h.Seq == ep.rcv.Next(), l.mem)
	l.begins = err != nil
	return msg, err
}

// acceptedRun is accepted for chunks that came in order, with consecutive numbers; h is the first.
func (m *Module) acceptedRun(ep *Endpoint, h *frag.Header, count int) {
	if count == 1 {
		m.accepted(ep, h)
		return
	}
	ep.rcv.AcceptRun(m.now, h.Seq, uint32(count), &m.rules)
	ep.rcv.Unread(m.rxQueuedMax)
	m.acks.owe(ep, m.now)
	m.stats.counters[CntRecvChunk] += uint64(count)
}
