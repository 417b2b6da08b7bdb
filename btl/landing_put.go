package btl

import (
	"gobtl/btl/internal/remote"
	"gobtl/fabric"
	"gobtl/frag"
)

// The payload of a put lands in the target region, and the answer to a get lands in the memory of
// the requester. A landing is memory into which the provider is told, before a poll, to write
// payloads. The memory of a region belongs to the application, so there is no landing for the first
// chunk of a put. Later landings of a put (target memory for the provider) are behind all bytes of
// the put that have arrived, while the put may still write to the region. If the payload of another
// packet may have landed in the region, the written memory is zeroed before that packet takes the
// ordinary path. The bytes of the put that belong into the zeroed memory arrive later. A region is
// closed in a handler or between two passes, when all landed packets have been processed. Nothing
// is therefore written to a closed region.

// expectedPut is the additional state of the next expected chunk if the chunk belongs to a put.
type expectedPut struct {
	flags  frag.Flags // the chunk's put and operation flags; 0: no put
	op     uint32
	handle Handle
	at     uint64 // offset in the region
	left   uint32 // bytes of the put from at on
}

// putProgress records which bytes of an endpoint's latest chunked put have arrived and must not be
// overwritten.
type putProgress struct {
	fragID uint32
	high   uint32 // no byte from this offset on has arrived
	known  bool   // fragID and high are valid
}

// reached records that a chunk was accepted whose bytes end before the offset end. reached returns
// false if the chunk is of an earlier put, or if later bytes of the put have already arrived.
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

// landingTo describes whose memory the landing (target memory) of a poll is.
type landingTo struct {
	head    int                       // size of a chunk's header in bytes
	region  *remote.Region[*Fragment] // nil: the memory is of a message
	at      uint64                    // offset in the region
	claimed uint32                    // bytes of the landing that were accepted
}

// landingPut returns the memory for the next chunks of a put, or nil, and describes the target in
// to.
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

// putCame updates the expectation after the acceptance of a put's chunk with the header h. If no
// byte behind the chunk has arrived, the bytes behind the chunk are expected next.
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
	chunk := max(x.chunk, h.PayloadLen) // the last chunk may be small
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

// isExpectedPut says whether a landed packet is the chunk of the put for which the landing was
// made.
func (m *Module) isExpectedPut(in *arrival, comp *fabric.Completion, base uint32) bool {
	l, h := &m.landing, &in.Header
	ep, x := l.aim, l.aim.expects
	return l.mem != nil && x.open && x.put.flags != 0 &&
		m.decodeLanded(comp, in, x.put.flags) && h.Conn == ep.id.Tag && h.FragID == x.fragID &&
		h.OffsetBytes == base+comp.LandedOff && Handle(h.Handle) == x.put.handle &&
		h.PutOffset == l.to.at+uint64(comp.LandedOff) && h.Op == x.put.op &&
		ep.id.Settled() && !ep.byeSeen && !ep.refuses() && ep.admissible(h)
}

// receivePutLanded is receiveLanded for the chunks of a put.
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
	// The offsets in the header h become the offsets of the run's last chunk.
	h.OffsetBytes += uint32(sizeBytes) - uint32(h.PayloadLen)
	h.PutOffset += uint64(sizeBytes) - uint64(h.PayloadLen)
	m.putCame(ep, h)
	if o := to.Came(sizeBytes); o != nil {
		m.gotAnswer(o, true)
	}
	if h.Flags&frag.FlagOp != 0 {
		if n := ep.memory().Placed(h.Op, sizeBytes); n.Here() { // a handler may be called
			m.unsplit(comps[count:])
			m.notify(ep, n)
		}
	}
	return count
}

// scrub zeroes the bytes that packets other than the expected put have written to a region's
// landing. These packets are in comps. The provider has written at most as many bytes as the
// packets in comps have together.
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
