package btl

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
)

// If the provider supports landings, the module receives large fragments without a copy of its own.
// A landing is target memory that the module announces to the provider before a poll of the channel
// that carries chunks. The provider writes the payloads of the polled packets directly to the
// landing memory. The memory of a landing begins behind the latest chunk, or at the start of the
// idle buffer for the next fragment. A landed payload is accepted only if the packet is the
// expected chunk. The payload of any other packet is copied back to the packet's receive buffer,
// and the packet takes the ordinary path. Until that copy, nothing may write to the fragment's
// memory, begin a fragment, call a handler or end an endpoint. At a batch's first unexpected
// packet, the payloads of that packet and of all later packets are therefore copied back. The
// payloads of puts land directly in the target region (landing_put.go).

// Each endpoint has its own expectation of the next chunk, because several peers may send large
// fragments at the same time. A poll has only one landing. The landing of a poll belongs to the
// endpoint whose chunks have lately followed the chunks of the latest sender.

// expectation describes the chunk that is expected next from an endpoint's peer.
type expectation struct {
	fragID uint32
	offset uint32 // of the chunk in its fragment
	missed uint32 // consecutive polls with other packets
	open   bool   // a chunk is expected
	begins bool   // the expected chunk is the first of its fragment
	bytes  uint32 // size of the latest complete large fragment
	first  uint16 // size of that fragment's first chunk
	chunk  uint16
	put    expectedPut
	puts   putProgress // the peer's latest put
	// next is the tag of the endpoint whose chunks usually arrive in the poll after this endpoint's
	// chunks. rival is the tag of another endpoint whose chunks arrived, the last time, in the poll
	// after this endpoint's chunks. A rival that follows twice becomes next.
	next, rival uint64
}

// landing is the state of the landings (announced target memory) on the channel that carries
// chunks. Chunks use the data channel, or the command channel on a reliable fabric.
type landing struct {
	lander    fabric.Lander // nil if the provider has no landings
	on        *port.Channel // the channel with landings; nil if lander is nil
	armed     bool          // the provider has been told a landing
	pause     int           // polls to do without a landing
	justWhole bool          // a fragment of large packets has become whole since the latest poll
	learned   bool          // learn has run for this poll

	tag    uint64 // endpoint of the next poll's landing; 0: none
	latest uint64 // endpoint whose chunk arrived last
	before uint64 // value of latest when this poll began

	aim *Endpoint // endpoint of this poll's landing, until the completions are handled
	mem []byte    // memory of the landing, from the expected chunk on
	to  landingTo

	guessMin uint32 // least fragment size for which a first chunk is expected
}

// guessBytesMin is the fragment size, in bytes, from which on a landing for the first chunks saves
// time. For smaller fragments, a poll without a landing (target memory) is faster, because such a
// poll receives several fragments at once.
const guessBytesMin = 32 << 10

// landingBytesMax is the maximum size, in bytes, of a landing (the target memory for one poll).
const landingBytesMax = 1 << 20

// missedMax is the number of consecutive polls without the expected chunk after which the chunk is
// not expected any more. A chunk that arrives in its receive buffer restarts the landings for the
// next chunks.
const missedMax = 2

// landingPause is the number of polls without a landing (target memory) after a landing got
// unexpected packets. Unexpected packets arrive, for example, when two peers send large fragments
// at the same time.
const landingPause = 2

// aloneBytesMin is the packet size, in bytes, from which on packets arrive one by one. For packets
// below aloneBytesMin, one poll may return a whole segmentation-offload train, even beyond the
// poll's limit.
const aloneBytesMin = 16 << 10

// chunkCame updates the expectation after the arrival of the chunk in h, where whole says that the
// fragment is complete. After two fragments of the same size from an endpoint, a third fragment of
// that size is expected. The landing for the first chunks of an expected fragment is the buffer
// that the fragment will get.
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

// expected returns the endpoint's expectation of the next chunk, which is allocated at the first
// call.
func (ep *Endpoint) expected() *expectation {
	if ep.expects == nil {
		ep.expects = new(expectation)
	}
	return ep.expects
}

// expectNext chooses the endpoint whose memory is the landing (target memory) of the next poll. The
// chunks of ep are the latest to arrive.
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

// learn records that chunks of ep have followed the chunks of the last sender of earlier polls.
// Only the first call of learn in a poll has an effect on the fields next and rival.
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

// expects says whether the next poll of channel c needs a landing (target memory), or has to
// withdraw the latest landing.
func (l *landing) expects(c *port.Channel) bool { return l.on == c && (l.armed || l.tag != 0) }

// pollLanding polls the channel that carries chunks. If a chunk is expected, pollLanding first
// tells the provider the memory for the payload (a landing). pollLanding may ask for fewer
// completions than limit.
func (m *Module) pollLanding(c *port.Channel, limit int) (got int, err error) {
	l := &m.landing
	if err = m.land(limit > 1); err != nil {
		return 0, err
	}
	if l.mem != nil && l.inOrder() {
		// A poll with a landing is limited to the number of chunks that fit the landing. Later
		// packets, such as the next fragment's first chunk, are left to the next poll, which has a
		// suitable landing.
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
	// Completions that the provider has not reported yet may have landed too. The loop polls all
	// remaining completions before any use of the landed memory. Each poll of the loop asks for one
	// completion, because a poll with more room would receive further datagrams. The number of
	// completions is at most the number of posted receives and sends, for which the channel has
	// room.
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

// inOrder says whether the next packets are very probably the expected chunks. inOrder is true on a
// counted link, which loses no packets. inOrder is also true for a put in packets of at least
// aloneBytesMin.
func (l *landing) inOrder() bool {
	x := l.aim.expects
	return l.aim.id.Counted && x.chunk > 0 || l.to.region != nil && x.chunk >= aloneBytesMin
}

// land tells the provider the landing (target memory) for the next poll, or that there is no
// landing. bulk is false if the poll must be without a landing.
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
	// The provider refuses a landing (target memory) while datagrams of an earlier poll without a
	// landing are unreported.
	l.mem, l.aim = nil, nil
	if l.armed {
		return errSurplus
	}
	return nil
}

// landing returns the memory for the next chunks that are expected from the endpoint's peer, or
// nil.
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

// errSurplus is the error for a provider that reports more completions than operations were posted.
var errSurplus = errors.New("more completions than were posted")

// handleLanded processes the completions of a poll with a landing (target memory for payloads).
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

// unsplit copies landed payloads back into the receive buffers of their packets, behind the
// headers. If the landing was for the first chunk of an expected fragment, that expectation ends,
// so that later packets can be received fast again.
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
		if b := m.port.Arena.Bytes(comp.Buf); int(comp.Len) <= len(b) { // longer: dropped
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

// expectNothing ends the expectation of a chunk from an endpoint's peer.
func (m *Module) expectNothing(ep *Endpoint) {
	ep.expects.open, ep.expects.begins = false, false
	if m.landing.tag == ep.id.Tag {
		m.landing.tag = 0
	}
}

// receiveLanded accepts a chunk whose payload has landed in place, and the run of chunks behind
// that chunk. The result is the number of accepted packets. receiveLanded returns 0 if the first
// packet is not the expected chunk or is not acceptable. In that case no state has changed. The
// payloads of the packets behind the run are copied back before anything can write to the landing.
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
	if h.Flags&frag.FlagAck != 0 { // on a counted link no chunk has an ACK
		m.onAck(ep, h, false)
	}
	ep.life.Heard(m.nowUnpaused, int(l.on.Which()))
	if ep.id.Counted {
		ep.counts.arriving, ep.counts.arrived = h.FragID, h.OffsetBytes+uint32(h.PayloadLen)
		m.accepted(ep, h)
	} else {
		m.acceptedRun(ep, h, count)
	}
	h.OffsetBytes += uint32(count-1) * uint32(h.PayloadLen) // offset of the last chunk
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

// runOf returns the number of packets that can be accepted together, of which in is the first.
func (m *Module) runOf(ep *Endpoint, in *arrival, comps []fabric.Completion) (count int) {
	count = 1
	// Each packet of the run is the next expected packet in its turn.
	if !ep.id.Counted && in.Seq == ep.rcv.Next() && ep.rcv.Held() == 0 {
		count += m.following(in, comps)
	}
	return count
}

// addLanded adds count chunks, whose payloads are in place already, to their fragment. h is the
// header of the first chunk. The result is the complete message, or nil.
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

// acceptedRun is the function accepted for count consecutively numbered chunks that arrived in
// order. h is the header of the first chunk.
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

// checkLanding verifies the endpoints' expectations of chunks between two polls.
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
