package btl

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
)

// If the provider supports landings, a large fragment is received without a copy by this module.
// Before each poll of the chunks' channel the provider is told the address of the next expected
// chunk: behind the latest chunk, or at the start of the idle buffer that the next fragment will
// get. The payload landed there counts only if the packets are exactly those chunks. Any other
// packet of the batch is reassembled in its receive buffer and takes the ordinary path. That needs
// the landed bytes intact: until then nothing may write to the fragment's memory, begin a fragment,
// call a handler or end an endpoint. So at a batch's first unexpected packet, that one and all
// behind it are reassembled. Puts land likewise, in the memory of their region: landing_put.go.

// Each endpoint has its own expectation, so that several may send large fragments at a time. A poll
// has one landing, of the endpoint from which the next chunks are expected: the one whose chunks
// have lately followed those of the latest sender.

// expectation describes the chunk that is expected next from an endpoint.
type expectation struct {
	fragID uint32
	offset uint32 // of the chunk in its fragment
	missed uint32 // polls that brought something else instead, one after the other
	open   bool   // there is one that is expected
	begins bool   // it would be the first of its fragment
	bytes  uint32 // size of the large fragment that became whole last
	first  uint16 // and its grid
	chunk  uint16
	put    expectedPut
	puts   putProgress // of the peer
	// next is the tag of the endpoint whose chunks usually follow, a poll later, those of this one.
	// rival is that of another which followed last; a rival that follows twice becomes next.
	next, rival uint64
}

// landing is the state of the landings on the chunks' channel: the data channel, or the command
// channel on a fabric that is reliable by itself.
type landing struct {
	lander    fabric.Lander // nil: the provider cannot do it
	on        *port.Channel // whose poll has a landing; nil as well
	armed     bool          // it has been told a landing
	pause     int           // polls without a landing, after one that was of no use
	justWhole bool          // a fragment of large packets is whole, and nothing was polled since
	learned   bool          // who came after the latest one is known of this poll

	tag    uint64 // of the endpoint from which the next poll may bring what it expects; 0: of none
	latest uint64 // of the one whose chunk came last
	before uint64 // and of the one that was it when this poll began

	aim *Endpoint // whose landing this poll has; no longer than until its completions are handled
	mem []byte    // and its memory, from the expected chunk on
	to  landingTo

	guessMin uint32 // size from which on the beginning of a fragment is expected
}

// guessBytesMin is the fragment size from which on a landing for the first chunks saves time. For
// smaller fragments a poll without a landing, which receives several at once, saves more.
const guessBytesMin = 32 << 10

// landingBytesMax bounds a landing.
const landingBytesMax = 1 << 20

// missedMax is the number of consecutive polls without the expected chunk after which it is no
// longer expected, until a chunk of its fragment arrives.
const missedMax = 2

// landingPause is the number of polls without a landing after one whose landing got unexpected
// packets, as when two peers send large fragments at once.
const landingPause = 2

// aloneBytesMin is the size from which on packets arrive one by one: of smaller ones a poll may
// return a whole segmentation-offload train, even beyond its limit.
const aloneBytesMin = 16 << 10

// chunkCame notes that the chunk in h has come, which may have made its fragment whole. After two
// fragments of one size from an endpoint a third is expected: then its first chunks land too, in
// the buffer that it will get.
func (m *Module) chunkCame(ep *Endpoint, h *frag.Header, whole bool) {
	l := &m.landing
	if l.lander == nil || !ep.lands() {
		return
	}
	x := ep.expected()
	x.missed, x.put = 0, expectedPut{}
	if whole {
		l.justWhole = int(h.ChunkBytes)+frag.ChunkHeaderBytes >= aloneBytesMin
		x.begins = h.SizeBytes >= l.guessMin && x.bytes == h.SizeBytes
		x.open, x.fragID, x.offset, x.bytes = x.begins, h.FragID+1, 0, h.SizeBytes
		x.first, x.chunk = h.FirstBytes, h.ChunkBytes
	} else {
		x.open, x.begins = true, false
		x.fragID, x.offset, x.chunk = h.FragID, h.OffsetBytes+uint32(h.PayloadLen), h.ChunkBytes
	}
	m.expectNext(ep)
}

// expected is the endpoint's expectation, allocated when its first chunk has arrived.
func (ep *Endpoint) expected() *expectation {
	if ep.expects == nil {
		ep.expects = new(expectation)
	}
	return ep.expects
}

// expectNext chooses the endpoint for the landing of the next poll, after chunks of ep.
func (m *Module) expectNext(ep *Endpoint) {
	l, x := &m.landing, ep.expects
	m.learn(ep)
	l.tag = 0
	if next := m.peers.Lookup(x.next); next != nil && next.expects != nil && next.expects.open {
		l.tag = x.next
	} else if x.open {
		l.tag = ep.id.Tag
	}
}

// learn notes which endpoint's chunks followed, in this poll, the last sender of earlier polls.
func (m *Module) learn(ep *Endpoint) {
	l := &m.landing
	l.latest = ep.id.Tag
	if l.learned {
		return
	}
	l.learned = true
	before := m.peers.Lookup(l.before)
	if before == nil {
		return
	}
	switch x := before.expected(); {
	case x.next == ep.id.Tag:
		x.rival = 0
	case x.rival == ep.id.Tag:
		x.next, x.rival = ep.id.Tag, 0
	default:
		x.rival = ep.id.Tag
	}
}

// expects says whether the next poll of a channel is to have a landing, or the latest poll had.
func (l *landing) expects(c *port.Channel) bool { return l.on == c && (l.armed || l.tag != 0) }

// pollLanding is Poll for the channel by which chunks arrive. It may ask for fewer completions than
// limit.
func (m *Module) pollLanding(c *port.Channel, limit int) (got int, err error) {
	l := &m.landing
	if err = m.land(limit > 1); err != nil {
		return 0, err
	}
	if l.mem != nil && l.inOrder() {
		// Chunks that land come first. Packets behind them, such as the next fragment's first
		// chunk, would need a copy: they are left to the next poll, which has its own landing.
		chunks := (len(l.mem) + int(l.aim.expects.chunk) - 1) / int(l.aim.expects.chunk)
		limit = min(limit, max(1, chunks))
	}
	if l.mem == nil {
		return c.Poll(m.now, limit)
	}
	if got, err = c.PollBehind(0, limit); err != nil {
		return got, err
	}
	l.justWhole = false
	// Completions that the provider could not report yet may have landed too: they are polled now,
	// before any use of the memory. One at a time, as a poll with room receives further datagrams.
	// They are no more than the posted receives and sends, for which comps has room.
	for n := got; n == limit; got += n {
		if l.lander.Land(nil, 0) {
			l.armed = false
			c.NotePolled(m.now, got, true)
			return got, nil
		}
		if limit = 1; got == c.PollsMost() {
			return got, errSurplus
		}
		if n, err = c.PollBehind(got, limit); err != nil {
			return got, err
		}
	}
	c.NotePolled(m.now, got, false)
	return got, nil
}

// inOrder says whether there are, in all probability, no other packets among the chunks that are to
// land: a reliable connection loses none, and a put with packets so large that each arrives by
// itself hardly any.
func (l *landing) inOrder() bool {
	x := l.aim.expects
	return l.aim.id.Counted && x.chunk > 0 || l.to.region != nil && x.chunk >= aloneBytesMin
}

// land tells the provider where the next chunk belongs, if one is expected.
func (m *Module) land(bulk bool) error {
	l := &m.landing
	l.mem, l.aim, l.to = nil, nil, landingTo{head: frag.ChunkHeaderBytes}
	l.before, l.learned = l.latest, false
	if l.pause > 0 {
		l.pause--
		bulk = false
	}
	if bulk && l.tag != 0 {
		l.aim = m.peers.Lookup(l.tag)
		if l.aim != nil {
			l.mem = l.aim.landing(&l.to)
		}
		if l.mem == nil {
			l.tag, l.aim = 0, nil
		}
	}
	if l.mem == nil && !l.armed {
		return nil
	}
	if l.lander.Land(l.mem, l.to.head) {
		l.armed = l.mem != nil
		return nil
	}
	// Datagrams of polls without a landing may wait unreported; a poll with a landing leaves none.
	l.mem, l.aim = nil, nil
	if l.armed {
		return errSurplus
	}
	return nil
}

// landing is the memory for the chunks that are expected of an endpoint, nil if there is none.
func (ep *Endpoint) landing(to *landingTo) (mem []byte) {
	x := ep.expects
	switch {
	case ep.id.State() != stateConnected || !x.open:
		x.open, x.begins = false, false
	case x.put.flags != 0:
		return ep.landingPut(to)
	case !x.begins:
		return ep.asm.Landing(x.fragID, x.offset, landingBytesMax)
	default:
		if mem = ep.asm.Anticipate(x.bytes, x.first, x.chunk, landingBytesMax); mem == nil {
			x.open, x.begins = false, false
		}
	}
	return mem
}

// errSurplus is the error for a provider that breaks the contract of package fabric.
var errSurplus = errors.New("more completions than were posted")

// handleLanded processes a batch of completions, some of which may have landed.
func (m *Module) handleLanded(c *port.Channel, comps []fabric.Completion) {
	m.handleAimed(c, comps)
	m.landing.aim = nil
}

func (m *Module) handleAimed(c *port.Channel, comps []fabric.Completion) {
	base := m.landing.aim.expects.offset
	for len(comps) > 0 {
		if comps[0].Op == fabric.OpSend {
			m.handle(c, &comps[0])
			comps = comps[1:]
			continue
		}
		count := m.receiveLanded(comps, base)
		if count == 0 {
			m.unsplit(comps)
			for i := range comps {
				m.handle(c, &comps[i])
			}
			return
		}
		c.Received(count)
		for i := range comps[:count] {
			c.Return(comps[i].Buf)
		}
		comps = comps[count:]
	}
}

// unsplit copies landed bytes back behind the rest of their packet. Any packet other than a guessed
// first chunk ends that guess, landed or not: lone packets are to be received fast again.
func (m *Module) unsplit(comps []fabric.Completion) {
	l := &m.landing
	guess := l.aim.expects.begins
	if guess && len(comps) > 0 {
		m.expectNothing(l.aim)
	}
	missed := false
	for i := range comps {
		comp := &comps[i]
		if comp.Landed == 0 || comp.Op != fabric.OpRecv {
			continue
		}
		missed = true
		landed := comp.Landed
		comp.Landed = 0
		if b := m.port.Arena.Bytes(comp.Buf); int(comp.Len) <= len(b) { // else it is dropped as truncated
			copy(b[comp.Len-landed:comp.Len], l.mem[comp.LandedOff:])
		}
	}
	m.scrub(comps)
	if missed && !guess {
		l.pause = landingPause
		if l.aim.expects.missed++; l.aim.expects.missed >= missedMax {
			m.expectNothing(l.aim)
		}
	}
}

// expectNothing ends the expectation of a chunk from an endpoint.
func (m *Module) expectNothing(ep *Endpoint) {
	ep.expects.open, ep.expects.begins = false, false
	if m.landing.tag == ep.id.Tag {
		m.landing.tag = 0
	}
}

// receiveLanded accepts a chunk whose payload is in place already, with the run of chunks that
// follows it, and returns the number of packets. 0 means that the first is not the expected chunk,
// or not acceptable, and no state has changed. The packets behind the run in the batch are
// reassembled before anything can write to the landing.
func (m *Module) receiveLanded(comps []fabric.Completion, base uint32) (count int) {
	var in arrival
	l, h := &m.landing, &in.Header
	if l.to.region != nil {
		return m.receivePutLanded(comps, base)
	}
	ep, x := l.aim, l.aim.expects
	if l.mem == nil || !m.decodeLanded(&comps[0], &in, 0) || h.Conn != ep.id.Tag || !x.open ||
		h.FragID != x.fragID || h.OffsetBytes != base+comps[0].LandedOff {
		return 0
	}
	if ep.id.State() != stateConnected || ep.id.Handshake() != nil || ep.refuses() ||
		m.handlers[h.Tag] == nil || m.tooLong(h) || !ep.admissible(h) {
		return 0
	}
	count = m.runOf(ep, &in, comps)
	msg, err := m.addLanded(ep, h, count)
	if err != nil {
		return 0
	}
	m.stats.counters[CntReceived] += uint64(count)
	m.stats.counters[CntLanded] += uint64(count)
	if h.Flags&frag.FlagAck != 0 { // on a counted link none has
		m.onAck(ep, h, false)
	}
	ep.life.Heard(m.nowUnpaused, int(l.on.Which()))
	if ep.id.Counted {
		ep.counts.arriving, ep.counts.arrived = h.FragID, h.OffsetBytes+uint32(h.PayloadLen)
		m.accepted(ep, h)
	} else {
		m.acceptedRun(ep, h, count)
	}
	h.OffsetBytes += uint32(count-1) * uint32(h.PayloadLen) // the last one's
	if msg == nil && !ep.byeSeen {
		m.chunkCame(ep, h, false)
		return count
	}
	m.unsplit(comps[count:])
	m.chunkCame(ep, h, msg != nil)
	if msg != nil {
		m.deliverWhole(ep, msg)
	}
	m.checkBye(ep)
	return count
}

// runOf is the number of packets that are accepted at once, of which in is the first.
func (m *Module) runOf(ep *Endpoint, in *arrival, comps []fabric.Completion) (count int) {
	count = 1
	// Each is the next in its turn.
	if !ep.id.Counted && in.Seq == ep.rcv.Next() && ep.rcv.Held() == 0 {
		count += m.following(in, comps)
	}
	return count
}

// addLanded adds count chunks that have landed, of which h is the first.
func (m *Module) addLanded(ep *Endpoint, h *frag.Header, count int) (*frag.Message, error) {
	l, x := &m.landing, ep.expects
	if !x.begins {
		return ep.asm.AddLanded(h, int(h.PayloadLen), count-1)
	}
	inOrder := ep.id.Counted || h.Seq == ep.rcv.Next()
	msg, err := ep.asm.BeginLanded(h, int(h.PayloadLen), count-1, inOrder, l.mem)
	x.begins = err != nil
	return msg, err
}

// acceptedRun is accepted for consecutively numbered chunks that came in order; h is the first.
func (m *Module) acceptedRun(ep *Endpoint, h *frag.Header, count int) {
	m.rxVia = viaData
	if count == 1 {
		m.accepted(ep, h)
		return
	}
	ep.numbers.Seen, ep.numbers.SeenBy = h.Number+uint32(count-1), viaData
	ep.rcv.AcceptRun(m.now, h.Seq, uint32(count), &m.rules)
	ep.rcv.Weigh(uint32(count), count*(frag.HeaderBytes(h.Kind, h.Flags)+int(h.PayloadLen)))
	ep.rcv.Unread(m.rxQueuedMax)
	m.acks.Owe(&ep.rcv, m.now)
	m.stats.counters[acceptedCounter(h)] += uint64(count)
}

// checkLanding verifies the expectations, between two polls.
func (m *Module) checkLanding(*checker) error {
	if m.landing.aim != nil {
		return errors.New("a landing outlives its poll")
	}
	for slot, ep := range m.peers.All() {
		if ep == nil || ep.expects == nil {
			continue
		}
		if x := ep.expects; x.begins && !x.open || x.open && (m.landing.lander == nil || !ep.lands()) ||
			x.missed >= missedMax && x.open {
			return fmt.Errorf("endpoint %d expects %+v", slot, *x)
		}
	}
	return nil
}
