package btl

import (
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// Send gives a fragment to the module; now is the present instant, in a handler Endpoint.Now. A
// lone tiny fragment (not behind a burst that is still in flight) is posted at once (usnic's fast
// send path), if the endpoint is connected, its queue empty, its window open and a slot of the
// command channel free. A larger one-packet fragment is posted at once when next to nothing is in
// flight. Small fragments that follow in the same pass, or before the next, share a packet, which
// leaves with this pass, or at the start of the next. One-packet fragments too large to share are
// posted in batches, the last with the next pass. In these cases Send returns Done, unless f.Signal
// is set or the fabric gathers the payload. Any other fragment joins the endpoint's queue: Queued.
// After an error the fragment is still the caller's: ErrState, ErrClosed, or why the endpoint
// ended.
func (ep *Endpoint) Send(now Time, f *Fragment) (Status, error) {
	m := ep.m
	m.at(now)
	if f.state != fragLent || f.ep != ep {
		return 0, ErrState
	}
	if err := ep.usable(); err != nil {
		return 0, err
	}
	ep.snd.Rest(m.now)
	if f.size > ep.fragBytesMax { // which the peer may have said since the fragment was lent
		return 0, ErrTooLarge
	}
	if f.op != nil {
		if err := ep.mayAsk(); err != nil {
			return 0, err
		}
		f.Signal = true // its end is more than that it was sent
	}
	m.dirty = true
	m.stats.counters[CntSentPayloadBytes] += uint64(f.size)
	if ep.fastSend(f) {
		m.stats.counters[CntSendsFast]++
		if f.out != 0 { // its end is the ACK
			f.state = fragSent
			m.frags.lent--
			return Queued, nil
		}
		m.stats.counters[CntDone]++
		m.freeFrag(f)
		return Done, nil
	}
	if ep.packSend(f) {
		m.stats.counters[CntSendsPacked]++
		if f.Signal {
			m.frags.lent--
			return Queued, nil
		}
		m.stats.counters[CntDone]++
		m.freeFrag(f)
		return Done, nil
	}
	m.stats.counters[CntSendsQueued]++
	m.frags.lent--
	ep.enqueue(f)
	return Queued, nil
}

// SendImmediate sends a copy of data at once, or in the shared packet of the next pass. It returns
// ErrAgain if neither is possible (queue not empty, window closed, no buffer), ErrTooLarge beyond
// MaxTiny, else errors as of Send. It is the cheapest way to send a tiny message, usnic's sendi.
func (ep *Endpoint) SendImmediate(now Time, tag Tag, data []byte) error {
	m := ep.m
	m.tick(now)
	if tag > TagMax {
		return ErrTag
	}
	if err := ep.usable(); err != nil {
		return err
	}
	ep.snd.Rest(m.now)
	if len(data) > min(ep.MaxTiny(), int(ep.fragBytesMax)) {
		return ErrTooLarge
	}
	alone := ep.alone()
	if ep.id.Counted && alone && ep.express(uint8(tag), data) {
		return nil
	}
	m.stir()
	var t reliability.Token
	path := CntSendsFast
	if (alone || !ep.packs(len(data))) && ep.fastOpen(&m.port.Command, alone) && m.takeSeg(ep, &t) {
		copy(m.port.Arena.Bytes(segBuf(t))[frag.FragHeaderBytes:], data)
		p := packet{ep: ep, seg: t}
		p.Kind, p.Tag, p.PayloadLen = frag.KindFrag, uint8(tag), uint16(len(data))
		m.postFast(&p, &m.port.Command, ep.cmdAddr, alone)
	} else if ep.packData(uint8(tag), data) {
		path = CntSendsPacked
	} else {
		m.stats.counters[CntSendsRefused]++
		return ep.again(wantsImmediate)
	}
	m.dirty = true
	m.stats.counters[CntSentPayloadBytes] += uint64(len(data))
	m.stats.counters[path]++
	m.stats.counters[CntDone]++
	return nil
}

// The number of packets of a burst in a batch before it is posted: enough to amortise the post (to
// the peer, or to the kernel as a train of datagrams), and few enough that the peer starts while
// later packets are being written.
const (
	companyMax = 8 // over a reliable fabric
	trainMax   = 32
)

// companyOn is the number of packets of a burst in the batch of c before it is posted. Tiny
// fragments that do not share a packet are posted one by one.
func (ep *Endpoint) companyOn(c *port.Channel) int {
	switch {
	case ep.id.Counted:
		return companyMax
	case c == &ep.m.port.Data:
		return trainMax
	}
	return 1
}

// fastOpen says whether a fragment may go to c at once, overtaking only large fragments. If it is
// not alone it may join the batch behind others of its burst.
func (ep *Endpoint) fastOpen(c *port.Channel, alone bool) bool {
	company := 1
	if !alone {
		company = ep.companyOn(c)
	}
	return ep.overtakes() && !ep.pack.open() && ep.id.State() == stateConnected && ep.snd.Open() &&
		c.Batched() < company && ep.roomOn(c) > 0
}

// fastSend posts f at once if the fast path is open for it. That is so for a tiny fragment that is
// alone, or cannot share a packet, and for a larger one-packet fragment when next to nothing is in
// flight: a lone message must not wait for a batch of its own.
func (ep *Endpoint) fastSend(f *Fragment) bool {
	m := ep.m
	flags := f.flags()
	size := f.packetBytes()
	c, to := &m.port.Command, ep.cmdAddr
	alone := ep.alone()
	if size > ep.tiny { // of a reliable one none is
		c, to = &m.port.Data, ep.dataAddr
		alone = alone && ep.quiet()
		if size > ep.mtu || !alone && m.sched.waiting() > 0 {
			return false
		}
	}
	if !alone && ep.packable(f) {
		return false
	}
	if !ep.fastOpen(c, alone) || !f.hasSeg && !m.fill(f, flags) {
		return false
	}
	var p packet
	p.setFrag(f, flags)
	f.hasSeg = false
	if !f.Signal && m.segs[p.seg].gatherLen == 0 {
		p.frag = nil // its sender is told now
		m.postFast(&p, c, to, alone)
		return true
	}
	f.out, f.cursor = 1, f.size
	m.asked(f)
	m.postFast(&p, c, to, alone)
	ep.awaitEnd(f)
	return true
}

// quiet says whether a larger message has no other packet to share a batch with: the pass has sent
// nothing, and next to nothing is in flight. In a ping-pong two packets are in flight: the latest
// answer carries their ACK, but its book-keeping is deferred.
func (ep *Endpoint) quiet() bool {
	const few = 2
	return ep.sentIn != ep.m.sendEpoch && ep.snd.InFlight() <= few
}

func (f *Fragment) flags() frag.Flags {
	var flags frag.Flags
	if f.put {
		flags = frag.FlagPut
	}
	if f.op != nil && f.op.Code() != 0 {
		flags |= frag.FlagOp
	}
	return flags
}

// packetBytes is the length of a packet with the whole fragment.
func (f *Fragment) packetBytes() int {
	n := int(f.size) + frag.HeaderBytes(frag.KindFrag, f.flags())
	if f.op != nil {
		n += len(f.op.Notice())
	}
	return n
}

// fill takes a send buffer for a fragment of one packet and copies its payload there, unless the
// fabric gathers the payload.
func (m *Module) fill(f *Fragment, flags frag.Flags) bool {
	if !m.takeSeg(f.ep, &f.seg) && !m.borrowSeg(f, &f.seg) {
		return false
	}
	head := frag.HeaderBytes(frag.KindFrag, flags)
	if f.op == nil && m.gathers(f) {
		m.load(f, f.seg, head, f.size)
	} else {
		b := m.port.Arena.Bytes(segBuf(f.seg))[head:]
		n := f.copyPayload(b, 0)
		if f.op != nil {
			copy(b[n:], f.op.Notice())
		}
	}
	f.hasSeg = true
	return true
}

// unfill moves the payload of a fragment from its send buffer to memory of its own: the buffer was
// lent for one packet, but the peer's MTU is smaller than its name said.
func (m *Module) unfill(f *Fragment) {
	m.emptySeg(f)
	m.giveSeg(f.ep, f.seg)
}

func (m *Module) emptySeg(f *Fragment) {
	f.own = append(f.own[:0], f.mem...)
	f.mem = f.own
	m.recovery.Unqueue(f.seg)
	f.hasSeg = false
}

// borrowSeg takes the send buffer for the first fragment of a queue from a later one of that queue,
// if the endpoint has no packet in flight that would free one: else the first fragment could wait
// for ever for those behind it. A large fragment, which now fits a packet, may also take the buffer
// of a small one, which may wait for it by a fence. Buffers in other endpoints' queues become free
// when those are served, or end.
func (m *Module) borrowSeg(f *Fragment, t *reliability.Token) bool {
	return !f.ep.busy() &&
		(m.borrowFrom(f.next, t) || f.large && m.borrowFrom(f.ep.small.queue.first, t))
}

// borrowFrom takes the send buffer of the first fragment that has one, from l on.
func (m *Module) borrowFrom(l *Fragment, t *reliability.Token) bool {
	for ; l != nil; l = l.next {
		if l.hasSeg {
			*t = l.seg
			m.emptySeg(l)
			return true
		}
	}
	return false
}

// postFast sends a packet for which fastOpen holds. A lone packet is posted at once, as the batch
// is empty; if the fabric cannot take it now it stays first in the batch. A packet of a burst
// leaves with those behind it, or with the next pass: a post is a system call, or over a reliable
// fabric publishes the packets to the peer, which for each packet would cost as much as copying
// some KiB.
func (m *Module) postFast(p *packet, c *port.Channel, to fabric.Addr, alone bool) {
	sizeBytes := m.seal(p)
	if p.ep.large.queue.first != nil {
		m.overtook(p.ep, sizeBytes)
	}
	m.putSegment(c, p.seg, to)
	switch {
	case alone:
		c.PostOne()
		m.settleSends()
	case c.Batched() == p.ep.companyOn(c):
		m.post(c)
	}
}

// enqueue puts f on the endpoint's to-send list.
func (ep *Endpoint) enqueue(f *Fragment) {
	f.state, f.fence = fragQueued, ep.flushes.Set()
	if f.hasSeg {
		ep.m.recovery.Queue(f.seg)
	}
	f.large = f.isBye() || !ep.fitsPacket(f)
	if f.large && f.hasSeg { // it was lent when packets were larger
		ep.m.unfill(f)
	}
	if f.large && !ep.bulk() {
		ep.beginBulk()
	}
	if q := &ep.flowOf(f).queue; f.answer {
		ep.pushAnswer(q, f)
	} else {
		q.push(f)
	}
	ep.m.sched.rearm(ep)
}

// sendSmall sends the next packet of an endpoint's small fragments: the open pack, or else
// the first of the queue. It returns the packet's length, 0 if there is no room now.
func (m *Module) sendSmall(ep *Endpoint) int {
	f := ep.small.queue.first
	if ep.pack.open() || ep.packable(f) {
		return m.sendPack(ep)
	}
	return m.sendFrag(ep, f)
}

// way is the channel that carries a packet of sizeBytes, with the peer's address on it.
func (ep *Endpoint) way(sizeBytes int) (*port.Channel, fabric.Addr) {
	if sizeBytes <= ep.tiny {
		return &ep.m.port.Command, ep.cmdAddr
	}
	return &ep.m.port.Data, ep.dataAddr
}

// sendFrag sends the first fragment of a queue as a packet of its own. It returns the packet's
// length, 0 if there is no room now.
func (m *Module) sendFrag(ep *Endpoint, f *Fragment) int {
	flags := f.flags()
	c, to := ep.way(f.packetBytes())
	if ep.roomOn(c) <= 0 {
		return 0
	}
	if f.hasSeg {
		m.recovery.Unqueue(f.seg)
	} else if !m.fill(f, flags) {
		return 0
	}
	var p packet
	p.setFrag(f, flags)
	f.hasSeg = false
	f.out, f.cursor = 1, f.size
	m.asked(f)
	n := m.seal(&p)
	m.putSegment(c, p.seg, to)
	m.unqueue(ep, f)
	ep.awaitEnd(f)
	return n
}

// sendChunks sends the next chunks of a fragment that is larger than a packet, straight from the
// fragment's memory. The chunks are adjacent in the batch and of one size, so that a provider can
// use segmentation offload.
func (m *Module) sendChunks(ep *Endpoint, f *Fragment, quantum, budget int) (sent, packets int) {
	c, to := ep.bulkPath()
	head := frag.HeaderBytes(frag.KindChunk, f.flags())
	packet := int(f.chunk)
	if f.cursor == 0 || f.put {
		packet = ep.evenly(int(f.size-f.cursor), ep.mtu-head)
	}
	// Half of the batch is reserved for other packets, should the fabric not accept these.
	limit := min(budget, ep.roomOn(c), port.BatchMax/2-c.Batched(), ep.bulkRoom(),
		1+(quantum-1)/(head+packet), ep.chunksOf(f, packet))
	if ep.tooLarge(head + packet) { // what the path carries has become less meanwhile
		limit = min(limit, m.partsRoom(ep, head+packet))
	}
	if f.cursor == 0 && !ep.mayNumber(splitsMax-1) {
		return 0, 0
	}
	var tokens [runMax]reliability.Token
	run := m.takeBulk(f, min(limit, runMax), tokens[:0])
	if len(run) == 0 {
		return 0, 0
	}
	if f.cursor == 0 {
		ep.numberFragment(f)
		f.first, f.chunk = uint16(min(f.size, uint32(packet))), uint16(packet)
		if f.op != nil {
			ep.remote.TakePlace(f.op)
		}
		if !f.answer || m.mayGatherAnswers(ep) {
			m.gathers(f)
		}
	}
	from := f.cursor
	var r chunkRun
	m.beginRun(&r, f, f.flags(), run)
	for _, t := range run {
		sizeBytes := min(f.size-f.cursor, uint32(packet))
		m.load(f, t, head, sizeBytes)
		m.writeChunk(&r, t, f.cursor, sizeBytes)
		f.cursor += sizeBytes
		if ep.tooLarge(int(m.segs[t].bytes)) {
			m.putParts(ep, t)
		} else {
			m.putSegment(c, t, to)
		}
	}
	if f.cursor == f.size && !f.noticeDue() {
		m.unqueue(ep, f)
		ep.awaitEnd(f)
	}
	return int(f.cursor-from) + len(run)*head, len(run)
}

// evenly is the payload per packet, at most mostBytes, for a fragment of sizeBytes. A fabric with
// segmentation offload needs packets of the maximal size. Other fabrics get equal packets: none is
// then a stub that costs as much as a full one, and the two sides' copies overlap.
func (ep *Endpoint) evenly(sizeBytes, mostBytes int) int {
	if !ep.id.Counted || sizeBytes <= mostBytes {
		return mostBytes
	}
	packets := 1 + (sizeBytes-1)/mostBytes
	return min(mostBytes, (sizeBytes/packets+evenBytes-1)&^(evenBytes-1))
}

// evenBytes is a cache line, the alignment of a fragment's packets where that is possible.
const evenBytes = 64

// runMax bounds the chunks of one run, which are adjacent in the batch.
const runMax = 64

// load puts the next bytes of a fragment into segment t, behind the space of a header, or sets the
// region from which the fabric gathers them.
func (m *Module) load(f *Fragment, t reliability.Token, headBytes int, sizeBytes uint32) {
	if f.vec != nil {
		m.loadPieces(f, t, headBytes, sizeBytes)
		return
	}
	if f.gather == 0 {
		copy(m.port.Arena.Bytes(segBuf(t))[headBytes:], f.mem[f.cursor:][:sizeBytes])
		return
	}
	s := &m.segs[t]
	s.frag, s.gatherAt, s.gatherLen = f, f.cursor, uint16(sizeBytes)
	m.stats.counters[CntSentGatheredBytes] += uint64(sizeBytes)
}

// unqueue takes a fragment off the to-send list: the first one, after its last packet, or a
// withdrawn one.
func (m *Module) unqueue(ep *Endpoint, f *Fragment) {
	before := ep.flowOf(f).queue.remove(f)
	f.state = fragSent
	if before == nil {
		ep.markFlush(f)
	} else {
		ep.flushes.Withdrawn(f, before)
	}
	if f.answer {
		ep.remote.Left(f.op, f.ownRegion)
	}
}
