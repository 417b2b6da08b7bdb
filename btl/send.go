package btl

import (
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// Send gives fragment f to the module, which sends f in one of the following ways:
//
//   - A single small fragment is posted to the fabric at once, if the endpoint is connected, its
//     queue is empty, its window is open and the command channel has a free slot. A fragment is not
//     single while a burst of its endpoint is in flight.
//   - A fragment of one packet that is too large for the command channel is posted at once if the
//     endpoint has at most two packets in flight.
//   - Small fragments that are sent after a single small fragment share a packet. A packet
//     of several small fragments is sent in the present call of Progress, or at the
//     beginning of the next call.
//   - Fragments of one packet that are too large to share a packet are posted in batches, the last
//     batch by the next call of Progress.
//   - Any other fragment joins the endpoint's queue; an urgent fragment joins at the front.
//
// Send returns Queued if f has joined the queue, if f.Signal is set, if f is a get, an
// atomic operation or a put with a completion notification, or if the fabric gathers the
// payload. For all other fragments Send returns Done, and the caller no longer owns f. The
// argument now of Send is the present time, which a handler gets from Endpoint.Now. After
// an error the caller still owns f. Send returns ErrState, ErrTooLarge, ErrUnsupported,
// ErrClosed, or the reason why the endpoint has ended. The immediate post of a single small
// fragment is the fast send path of Open MPI's usnic.
func (ep *Endpoint) Send(now Time, f *Fragment) (Status, error) {
	m := ep.m
	m.at(now)
	if f.state != fragLent || f.ep != ep {
		return 0, ErrState
	}
	if err := ep.usable(); err != nil {
		return 0, err
	}
	ep.snd.Rest(m.clock.Now)
	if f.size > ep.fragBytesMax { // the peer may have announced its limit after f was lent
		return 0, ErrTooLarge
	}
	if f.op != nil {
		if err := ep.mayAsk(); err != nil {
			return 0, err
		}
		f.Signal = true // the operation does not end when its packet is sent
	}
	if f.Urgent {
		f.hurry()
	}
	m.dirty = true
	m.stats.counters[CntSentPayloadBytes] += uint64(f.size)
	if ep.fastSend(f) {
		m.stats.counters[CntSendsFast]++
		if f.out != 0 { // the fragment ends with its acknowledgement
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

// SendImmediate sends a copy of data at once, or in a packet shared by small fragments in the next
// call of Progress. SendImmediate returns ErrAgain if data cannot be sent now, because the queue is
// not empty, the window is closed or no buffer is free. SendImmediate returns ErrTooLarge for data
// longer than MaxTiny, or an error of Send. SendImmediate is the cheapest way to send a small
// message, like sendi of Open MPI's usnic.
func (ep *Endpoint) SendImmediate(now Time, tag Tag, data []byte) error {
	m := ep.m
	m.tick(now)
	if tag > TagMax {
		return ErrTag
	}
	if err := ep.usable(); err != nil {
		return err
	}
	ep.snd.Rest(m.clock.Now)
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
	if (alone || !ep.packs(len(data))) && ep.fastOpen(&m.port.Command, nil, alone) &&
		m.takeSeg(ep, &t) {
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

// companyMax and trainMax are the numbers of packets of a burst at which a batch is posted.
const (
	companyMax = 8 // over a reliable fabric
	trainMax   = 32
)

// companyOn returns the number of packets at which a burst in the batch of channel c is posted.
func (ep *Endpoint) companyOn(c *port.Channel) int {
	switch {
	case ep.id.Counted:
		return companyMax
	case c == &ep.m.port.Data:
		return trainMax
	}
	return 1
}

// fastOpen reports whether a fragment may be posted to channel c at once, ahead of queued
// large fragments, and as an urgent f also of small ones.
func (ep *Endpoint) fastOpen(c *port.Channel, f *Fragment, alone bool) bool {
	company := 1
	if !alone {
		company = ep.companyOn(c)
	}
	return ep.overtakes(f) && !ep.pack.Open() && ep.id.State() == stateConnected && ep.snd.Open() &&
		c.Batched() < company && ep.roomOn(c) > 0
}

// fastSend posts f on its channel at once if the fast path is open, and reports whether f
// was sent.
func (ep *Endpoint) fastSend(f *Fragment) bool {
	m := ep.m
	flags := f.flags()
	size := f.packetBytes()
	c, to := &m.port.Command, ep.cmdAddr
	alone := ep.alone()
	if size > ep.tiny { // never true over a reliable fabric
		c, to = &m.port.Data, ep.dataAddr
		alone = alone && ep.quiet()
		if size > ep.mtu || !alone && m.sched.Waiting() > 0 {
			return false
		}
	}
	if !alone && ep.packable(f) {
		return false
	}
	if !ep.fastOpen(c, f, alone) || !f.hasSeg && !m.fill(f, flags) {
		return false
	}
	var p packet
	p.setFrag(f, flags)
	f.hasSeg = false
	if !f.Signal && m.segs[p.seg].gatherLen == 0 {
		p.frag = nil // Send returns Done at once
		m.postFast(&p, c, to, alone)
		return true
	}
	f.out, f.cursor = 1, f.size
	m.asked(f)
	m.postFast(&p, c, to, alone)
	ep.awaitEnd(f)
	return true
}

// quiet reports whether a message that is too large for the command channel would be alone in its
// batch. quiet returns true if the endpoint has sent no packet in the present call of Progress,
// and has at most two packets in flight.
func (ep *Endpoint) quiet() bool {
	const few = 2
	return ep.sentIn != ep.m.clock.Epoch && ep.snd.InFlight() <= few
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

func (f *Fragment) packetBytes() int {
	n := int(f.size) + frag.HeaderBytes(frag.KindFrag, f.flags())
	if f.op != nil {
		n += len(f.op.Notice())
	}
	return n
}

// fill takes a send buffer for a fragment of one packet, and copies the payload to the buffer
// unless the fabric gathers the payload. fill returns false if no buffer is free.
func (m *Module) fill(f *Fragment, flags frag.Flags) bool {
	if !m.takeSeg(f.ep, &f.seg) && !m.borrowSeg(f, &f.seg) {
		return false
	}
	head := frag.HeaderBytes(frag.KindFrag, flags)
	if f.op == nil && m.gathers(f) {
		m.load(f, f.seg, head, f.size)
	} else {
		b := m.port.Arena.Bytes(segBuf(f.seg))[head:]
		n := f.data.CopyTo(b, 0)
		if f.op != nil {
			copy(b[n:], f.op.Notice())
		}
	}
	f.hasSeg = true
	return true
}

// unfill moves the payload of a fragment from its send buffer to separate memory, and frees the
// buffer. unfill is called if the peer's MTU is so small that the fragment does not fit into a
// packet.
func (m *Module) unfill(f *Fragment) {
	m.emptySeg(f)
	m.giveSeg(f.ep, f.seg)
}

func (m *Module) emptySeg(f *Fragment) {
	f.own = append(f.own[:0], f.data.Bytes...)
	f.data.Bytes = f.own
	m.recovery.Unqueue(f.seg)
	f.hasSeg = false
}

// borrowSeg takes the send buffer for fragment f from a later fragment of the same queue, if the
// endpoint has no packet in flight that would free a buffer.
func (m *Module) borrowSeg(f *Fragment, t *reliability.Token) bool {
	return !f.ep.busy() &&
		(m.borrowFrom(f.next, t) || f.large && m.borrowFrom(f.ep.small.queue.first, t))
}

// borrowFrom takes the send buffer of the first fragment with a send buffer, in the part of
// the list that begins at l.
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

// postFast sends a packet for which fastOpen returns true. A packet of a burst is posted with
// later packets, or in the next call of Progress, because each post is expensive.
func (m *Module) postFast(p *packet, c *port.Channel, to fabric.Addr, alone bool) {
	sizeBytes := m.seal(p)
	if p.ep.large.queue.first != nil || p.ep.small.queue.first != nil {
		m.sched.overtook(p.ep, sizeBytes)
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

func (ep *Endpoint) enqueue(f *Fragment) {
	f.state, f.fence = fragQueued, ep.flushes.Set()
	if f.hasSeg {
		ep.m.recovery.Queue(f.seg)
	}
	f.large = f.isBye() || !ep.fitsPacket(f)
	if f.large && f.hasSeg { // the buffer was lent when packets were larger
		ep.m.unfill(f)
	}
	if f.large && !ep.bulk() {
		ep.beginBulk()
	}
	q := &ep.flowOf(f).queue
	q.insert(f, ep.before(q, f))
	ep.m.sched.rearm(ep)
}

// sendSmall sends the next packet of an endpoint's small fragments. sendSmall returns the
// packet's length in bytes, or 0 if no packet can be sent now.
func (m *Module) sendSmall(ep *Endpoint) int {
	f := ep.small.queue.first
	if ep.pack.Open() || ep.packable(f) {
		return m.sendPack(ep)
	}
	return m.sendFrag(ep, f)
}

// way returns the channel for a packet of sizeBytes, and the peer's address on this channel.
func (ep *Endpoint) way(sizeBytes int) (*port.Channel, fabric.Addr) {
	if sizeBytes <= ep.tiny {
		return &ep.m.port.Command, ep.cmdAddr
	}
	return &ep.m.port.Data, ep.dataAddr
}

// sendFrag sends the first fragment of a queue in its own packet. sendFrag returns the packet's
// length in bytes, or 0 if the packet cannot be sent now.
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

// sendChunks sends the next chunks of a fragment that is larger than a packet, from the fragment's
// memory. The chunks are adjacent in the batch and of equal size, so that the provider can use
// segmentation offload. sendChunks returns the number of bytes sent, headers included, and the
// number of packets.
func (m *Module) sendChunks(ep *Endpoint, f *Fragment, quantum, budget int) (sent, packets int) {
	c, to := ep.bulkPath()
	head := frag.HeaderBytes(frag.KindChunk, f.flags())
	packet := int(f.chunk)
	if f.cursor == 0 || f.put {
		packet = ep.evenly(int(f.size-f.cursor), ep.mtu-head)
	}
	limit := min(budget, ep.roomOn(c), port.BatchMax/2-c.Batched(), ep.bulkRoom(),
		1+(quantum-1)/(head+packet), ep.chunksOf(f, packet))
	if ep.tooLarge(head + packet) { // the path MTU has become smaller since the first chunk
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
		if !f.answer || mayGatherAnswers(ep) {
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

// evenly returns the payload per packet, at most mostBytes, for a fragment of sizeBytes. Over a
// reliable fabric the packets have nearly equal sizes, because a short last packet would cost as
// much as a full one.
func (ep *Endpoint) evenly(sizeBytes, mostBytes int) int {
	if !ep.id.Counted || sizeBytes <= mostBytes {
		return mostBytes
	}
	packets := 1 + (sizeBytes-1)/mostBytes
	return min(mostBytes, (sizeBytes/packets+evenBytes-1)&^(evenBytes-1))
}

// evenBytes is the size of a cache line, to which the payloads of a fragment's packets are aligned
// where possible.
const evenBytes = 64

// runMax is the maximum number of adjacent chunks that sendChunks adds to the batch in one call.
const runMax = 64

// load puts the fragment's next sizeBytes into send buffer t, behind headBytes of space for the
// header. Of bytes that the fabric gathers, load only records the place and length.
func (m *Module) load(f *Fragment, t reliability.Token, headBytes int, sizeBytes uint32) {
	at, gathered := f.data.Load(m.port.Arena.Bytes(segBuf(t))[headBytes:][:sizeBytes], f.cursor)
	if gathered > 0 {
		s := &m.segs[t]
		s.frag, s.gatherAt, s.gatherLen = f, at, gathered
		m.stats.counters[CntSentGatheredBytes] += uint64(gathered)
	}
}

// unqueue removes a fragment from its queue, because the fragment's last packet was sent or the
// fragment is withdrawn.
func (m *Module) unqueue(ep *Endpoint, f *Fragment) {
	before := ep.flowOf(f).queue.remove(f)
	f.state = fragSent
	if before == nil {
		ep.markFlush(f)
	} else {
		ep.flushes.Withdrawn(f, before)
	}
	if f.answer {
		ep.remote.Left(f.op, f.data.Registered())
	}
}
