package btl

import (
	"gobtl/btl/internal/remote"
	"gobtl/fabric"
	"gobtl/frag"
)

// A put lands in its region, the answer to a get in the memory of the requester. That memory is the
// owner's, not the module's: so no landing is guessed there. A put's landing begins only once a
// chunk of the put has come, behind all bytes that have come (gaps do not matter), and only while
// the put may still write there. If another packet has landed there, or may have, its bytes are
// zeroed before that packet takes the ordinary path; the put's own bytes follow later. A region is
// closed in a handler or between two passes, when landed packets have been processed: so nothing is
// written there afterwards.

// expectedPut is the further state of the next expected chunk, if it is one of a put.
type expectedPut struct {
	flags  frag.Flags // those of puts and operations; 0: it is no put
	op     uint32
	handle Handle
	at     uint64 // where in the region
	left   uint32 // bytes of the put from there on
}

// putProgress marks the bytes of an endpoint's latest chunked put that must not be overwritten.
type putProgress struct {
	fragID uint32
	high   uint32 // no byte from here on has come
	known  bool   // there is one
}

// reached notes the end of a chunk that was accepted. False means that chunks behind it may have
// come, or that it is not of the latest put.
func (p *putProgress) reached(fragID, end uint32) bool {
	switch ahead := int32(fragID - p.fragID); {
	case p.known && ahead == 0:
		p.high = max(p.high, end)
	case p.known && ahead < 0:
		return false
	default:
		*p = putProgress{fragID: fragID, high: end, known: true}
	}
	return end == p.high
}

// landingTo describes the target of a poll's landing, beyond its memory.
type landingTo struct {
	head    int                       // bytes of a header
	region  *remote.Region[*Fragment] // nil: it is a message's
	at      uint64                    // where in the region
	claimed uint32                    // bytes of the landing that were taken over
}

// landingPut is landing for a put.
func (ep *Endpoint) landingPut(to *landingTo) []byte {
	x := ep.expects
	n := min(x.put.left, landingBytesMax)
	if n < x.put.left {
		n -= n % uint32(x.chunk)
	}
	m := ep.m
	r, _ := m.remote.Reach(ep.remote, x.put.handle, x.put.at, int(n), remote.PutNeeds(x.put.flags))
	if r == nil || n == 0 {
		x.open = false
		return nil
	}
	*to = landingTo{
		head: frag.HeaderBytes(frag.KindChunk, x.put.flags), region: r, at: x.put.at,
	}
	return r.Bytes()[x.put.at:][:n:n]
}

// putCame notes that the chunk in h of a put was accepted. If no byte behind that chunk has come,
// those bytes are expected next.
func (m *Module) putCame(ep *Endpoint, h *frag.Header) {
	l := &m.landing
	if h.Kind != frag.KindChunk || l.lander == nil || !ep.lands() {
		return
	}
	x := ep.expected()
	end := h.OffsetBytes + uint32(h.PayloadLen)
	if !x.puts.reached(h.FragID, end) {
		return
	}
	chunk := max(x.chunk, h.PayloadLen) // the last one may be small
	x.missed, x.begins, x.bytes = 0, false, 0
	x.open = end < h.SizeBytes
	x.fragID, x.offset, x.chunk = h.FragID, end, h.PayloadLen
	x.put = expectedPut{
		flags: h.Flags & (frag.FlagPut | frag.FlagOp), op: h.Op, handle: Handle(h.Handle),
		at: h.PutOffset + uint64(h.PayloadLen), left: h.SizeBytes - end,
	}
	if end == h.SizeBytes {
		l.justWhole = int(chunk)+frag.HeaderBytes(h.Kind, h.Flags) >= aloneBytesMin
	}
	m.expectNext(ep)
}

// isExpectedPut says whether a landed packet is the put's chunk that was expected there.
func (m *Module) isExpectedPut(in *arrival, comp *fabric.Completion, base uint32) bool {
	l, h := &m.landing, &in.Header
	ep, x := l.aim, l.aim.expects
	return l.mem != nil && x.open && x.put.flags != 0 &&
		m.decodeLanded(comp, in, x.put.flags) && h.Conn == ep.id.Tag && h.FragID == x.fragID &&
		h.OffsetBytes == base+comp.LandedOff && Handle(h.Handle) == x.put.handle &&
		h.PutOffset == l.to.at+uint64(comp.LandedOff) && h.Op == x.put.op &&
		ep.id.Settled() && !ep.byeSeen && !ep.refuses() && ep.admissible(h)
}

// receivePutLanded is receiveLanded for a put.
func (m *Module) receivePutLanded(comps []fabric.Completion, base uint32) (count int) {
	var in arrival
	l, h := &m.landing, &in.Header
	ep := l.aim
	if !m.isExpectedPut(&in, &comps[0], base) {
		return 0
	}
	count = m.runOf(ep, &in, comps)
	sizeBytes := count * int(h.PayloadLen)
	needs := remote.PutNeeds(h.Flags)
	to, _ := m.remote.Reach(ep.remote, Handle(h.Handle), h.PutOffset, sizeBytes, needs)
	if to == nil || to != l.to.region {
		return 0
	}
	l.to.claimed += uint32(sizeBytes)
	m.stats.counters[CntReceived] += uint64(count)
	m.stats.counters[CntLandedPut] += uint64(count)
	m.stats.counters[CntRecvPayloadBytes] += uint64(sizeBytes)
	if h.Flags&frag.FlagAck != 0 {
		m.onAck(ep, h, false)
	}
	ep.life.Heard(m.nowUnpaused, int(viaData))
	m.acceptedRun(ep, h, count)
	// From here on the offset is that of the run's last chunk.
	h.OffsetBytes += uint32(sizeBytes) - uint32(h.PayloadLen)
	h.PutOffset += uint64(sizeBytes) - uint64(h.PayloadLen)
	m.putCame(ep, h)
	if o := to.Came(sizeBytes); o != nil {
		m.gotAnswer(o, true)
	}
	if h.Flags&frag.FlagOp != 0 {
		if n := ep.memory().Placed(h.Op, sizeBytes); n.Here() { // its handler may be called
			m.unsplit(comps[count:])
			m.notify(ep, n)
		}
	}
	return count
}

// scrub zeroes bytes of a region's landing that belong to other packets: those of comps, which were
// reassembled. The provider has written at most as many bytes as they have.
func (m *Module) scrub(comps []fabric.Completion) {
	to := &m.landing.to
	if to.region == nil {
		return
	}
	var arrived uint64
	for i := range comps {
		if comps[i].Op == fabric.OpRecv {
			arrived += uint64(comps[i].Len)
		}
	}
	rest := m.landing.mem[to.claimed:]
	clear(rest[:min(uint64(len(rest)), arrived)])
	to.claimed = uint32(len(m.landing.mem)) // a handler may end the region now
}
