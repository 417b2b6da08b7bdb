package peer

import (
	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/mono"
	"gobtl/reliability"
)

// Sender sends the fragments of all endpoints, in turn.
type Sender struct{ *Services }

// SendOptions are the properties of a send.
type SendOptions struct {
	Signal bool // the fragment ends only with its acknowledgement
	Urgent bool // the fragment may be sent before fragments that are already queued
	Told   bool // an error is reported to the caller, and not by the next Flush
}

// Send sends or queues fragment f, as the comment of btl.Endpoint.Send describes. The result "done"
// of Send says whether the send is already done, so that fragment f was freed.
func (tx Sender) Send(ep *Endpoint, now mono.Time, f *Fragment, how SendOptions) (
	done bool, err error,
) {
	tx.At(now)
	if f.state != fragLent || f.Ep != ep {
		return false, errs.ErrState
	}
	if err := ep.usable(); err != nil {
		return false, err
	}
	ep.Snd.Rest(tx.Clock.Now)
	if f.size > ep.FragBytesMax { // the peer may have announced its limit after Alloc or Prepare
		return false, errs.ErrTooLarge
	}
	if f.Op != nil {
		if err := ep.mayAsk(); err != nil {
			return false, err
		}
		how.Signal = true // the operation does not end when its packet is sent
	}
	f.signal, f.told = how.Signal, how.Told
	if how.Urgent {
		f.hurry()
	}
	tx.Dirty = true
	tx.Count[stats.CntSentPayloadBytes] += uint64(f.size)
	unbatched := ep.unbatched()
	packable := !unbatched && tx.Packs.packable(ep, f)
	if !packable && tx.fastSend(ep, f, unbatched) {
		tx.Count[stats.CntSendsFast]++
		if f.out != 0 { // the fragment ends with its acknowledgement
			f.state = fragSent
			tx.Frags.lent--
			return false, nil
		}
		tx.Count[stats.CntDone]++
		tx.Frags.FreeFrag(f)
		return true, nil
	}
	if (packable || unbatched && tx.Packs.packable(ep, f)) && tx.Packs.packSend(ep, f) {
		tx.Count[stats.CntSendsPacked]++
		if f.signal {
			tx.Frags.lent--
			return false, nil
		}
		tx.Count[stats.CntDone]++
		tx.Frags.giveBack(f) // a packable fragment has no other memory than its buffer
		return true, nil
	}
	tx.Count[stats.CntSendsQueued]++
	tx.Frags.lent--
	tx.enqueue(ep, f)
	return false, nil
}

// SendImmediate does the work of btl.Endpoint.SendImmediate.
func (tx Sender) SendImmediate(ep *Endpoint, now mono.Time, tag uint8, data []byte) error {
	tx.Tick(now)
	if tag > frag.TagUserMax {
		return errs.ErrTag
	}
	if err := ep.usable(); err != nil {
		return err
	}
	ep.Snd.Rest(tx.Clock.Now)
	if len(data) > min(ep.MaxTiny(), int(ep.FragBytesMax)) {
		return errs.ErrTooLarge
	}
	unbatched := ep.unbatched()
	if ep.ID.Counted && unbatched && tx.express(ep, tag, data) {
		return nil
	}
	tx.Rest.Stir()
	var t reliability.Token
	path := stats.CntSendsFast
	if (unbatched || !tx.Packs.fits(ep, len(data))) &&
		tx.fastOpen(ep, &tx.Port.Command, nil, unbatched) && tx.Buffers.takeSeg(ep, &t) {
		copy(tx.Port.Arena.Bytes(fabric.Buf(t))[frag.FragHeaderBytes:], data)
		p := packet{ep: ep, seg: t}
		p.Kind, p.Tag, p.PayloadLen = frag.KindFrag, tag, uint16(len(data))
		tx.postFast(&p, &tx.Port.Command, ep.cmdAddr, unbatched)
	} else if tx.Packs.packData(ep, tag, data) {
		path = stats.CntSendsPacked
	} else {
		tx.Count[stats.CntSendsRefused]++
		return tx.Outbox.again(ep, wantsImmediate)
	}
	tx.Dirty = true
	tx.Count[stats.CntSentPayloadBytes] += uint64(len(data))
	tx.Count[path]++
	tx.Count[stats.CntDone]++
	return nil
}

// When a burst has reached companyMax packets over a reliable fabric, or trainMax packets over an
// unreliable fabric, the channel's batch is posted to the fabric.
const (
	companyMax = 8 // over a reliable fabric
	trainMax   = 32
)

// companyOn returns the number of packets in a burst at which the batch of channel c is posted to
// the fabric.
func (tx Sender) companyOn(ep *Endpoint, c *port.Channel) int {
	switch {
	case ep.ID.Counted:
		return companyMax
	case c == &tx.Port.Data:
		return trainMax
	}
	return 1
}

// fastOpen reports whether a fragment may be posted to channel c immediately, ahead of queued large
// fragments and, if f is urgent, ahead of queued small fragments.
func (tx Sender) fastOpen(ep *Endpoint, c *port.Channel, f *Fragment, unbatched bool) bool {
	company := 1
	if !unbatched {
		company = tx.companyOn(ep, c)
	}
	return ep.overtakes(f) && !ep.pack.Open() && ep.ID.State == StateConnected && ep.Snd.Open() &&
		len(c.Batch) < company && ep.roomOn(c) > 0
}

// If fastOpen allows it, fastSend posts fragment f on its channel immediately, and reports whether
// f was sent. The argument "unbatched" of fastSend is the result of Endpoint.unbatched. If the
// argument "unbatched" is false, f must be a fragment that is not allowed to share a packet.
func (tx Sender) fastSend(ep *Endpoint, f *Fragment, unbatched bool) bool {
	flags := f.flags()
	size := f.packetBytes()
	c, to := &tx.Port.Command, ep.cmdAddr
	if size > ep.Tiny() { // never true over a reliable fabric
		c, to = &tx.Port.Data, ep.dataAddr
		burst := unbatched && !ep.quiet()
		unbatched = unbatched && !burst
		if size > ep.MTU() || !unbatched && tx.Sched.Waiting() > 0 || burst && tx.Packs.packable(ep, f) {
			return false
		}
	}
	if !tx.fastOpen(ep, c, f, unbatched) || !f.hasSeg && !tx.fill(f, flags) {
		return false
	}
	var p packet
	p.setFrag(f, flags)
	f.hasSeg = false
	if !f.signal && tx.Buffers.segs[p.seg].gatherLen == 0 {
		p.frag = nil // Send returns Done at once
		tx.postFast(&p, c, to, unbatched)
		return true
	}
	f.out, f.cursor = 1, f.size
	tx.Timers.asked(f)
	tx.postFast(&p, c, to, unbatched)
	ep.awaitEnd(f)
	return true
}

// The method "quiet" returns true if the endpoint has at most two packets in flight, and has sent
// no packet in the present epoch (a call of Progress, or the time between two calls). A message for
// which quiet returns true is probably the only packet in its batch.
func (ep *Endpoint) quiet() bool {
	const few = 2
	return ep.sentIn != ep.All.Clock.Epoch && ep.Snd.InFlight() <= few
}

func (f *Fragment) flags() frag.Flags {
	var flags frag.Flags
	if f.put {
		flags = frag.FlagPut
	}
	if f.Op != nil && f.Op.Code != 0 {
		flags |= frag.FlagOp
	}
	return flags
}

func (f *Fragment) packetBytes() int {
	n := int(f.size) + frag.HeaderBytes(frag.KindFrag, f.flags())
	if f.Op != nil {
		n += len(f.Op.Notice())
	}
	return n
}

// fill takes a send buffer for a fragment that fits into one packet, and copies the payload to the
// buffer unless the fabric gathers the payload. fill reports whether a buffer was free.
func (tx Sender) fill(f *Fragment, flags frag.Flags) bool {
	if !tx.Buffers.takeSeg(f.Ep, &f.seg) && !tx.Buffers.borrowSeg(f, &f.seg) {
		return false
	}
	head := frag.HeaderBytes(frag.KindFrag, flags)
	b := tx.Port.Arena.Bytes(fabric.Buf(f.seg))[head:]
	if f.Op == nil && tx.Frags.gathers(f) {
		tx.load(f, f.seg, b[:f.size])
	} else {
		n := f.Data.CopyTo(b, 0)
		if f.Op != nil {
			copy(b[n:], f.Op.Notice())
		}
	}
	f.hasSeg = true
	return true
}

// postFast sends a packet for which fastOpen has returned true. A packet of a burst is posted
// together with the packets that follow it, or in the next call of Progress, because each post is
// expensive.
func (tx Sender) postFast(p *packet, c *port.Channel, to fabric.Addr, unbatched bool) {
	sizeBytes := tx.Links.seal(p)
	if p.ep.large.queue.first != nil || p.ep.small.queue.first != nil {
		tx.Sched.overtook(p.ep, sizeBytes)
	}
	tx.Buffers.putSegment(c, p.seg, to)
	switch {
	case unbatched:
		c.PostOne()
		tx.Buffers.SettleSends()
	case len(c.Batch) == tx.companyOn(p.ep, c):
		tx.Buffers.post(c)
	}
}

// enqueue puts a fragment into the queue of small fragments or into the queue of large fragments of
// its endpoint.
func (tx Sender) enqueue(ep *Endpoint, f *Fragment) {
	f.state, f.fence = fragQueued, ep.Flushes.Set()
	if f.hasSeg {
		tx.Recovery.Queue(f.seg)
	}
	f.large = f.isBye() || f.packetBytes() > ep.MTU()
	if f.large && f.hasSeg { // Alloc has chosen the buffer when the MTU was larger
		tx.Buffers.unfill(f)
	}
	if f.large && !ep.bulk() {
		ep.needLarge().balance.BeginLarge()
	}
	q := &ep.flowOf(f).queue
	behind := q.last
	if f.answer || f.urgent {
		behind = ep.ahead(q, f)
	}
	q.insert(f, behind)
	tx.Sched.Rearm(ep)
}

// sendSmall sends the next packet of the endpoint's queue of small fragments. sendSmall returns the
// packet's length in bytes, or 0 if no packet can be sent at present.
func (tx Sender) sendSmall(ep *Endpoint) int {
	f := ep.small.queue.first
	if ep.pack.Open() || tx.Packs.packable(ep, f) {
		return tx.Packs.sendPack(ep)
	}
	return tx.sendFrag(ep, f)
}

// The method "way" returns the channel for a packet of sizeBytes, and the peer's address on this
// channel.
func (ep *Endpoint) way(sizeBytes int) (*port.Channel, fabric.Addr) {
	if sizeBytes <= ep.Tiny() {
		return &ep.All.Port.Command, ep.cmdAddr
	}
	return &ep.All.Port.Data, ep.dataAddr
}

// sendFrag sends the first fragment of a queue in its own packet. sendFrag returns the packet's
// length in bytes, or 0 if the packet cannot be sent at present.
func (tx Sender) sendFrag(ep *Endpoint, f *Fragment) int {
	flags := f.flags()
	c, to := ep.way(f.packetBytes())
	if ep.roomOn(c) <= 0 {
		return 0
	}
	if f.hasSeg {
		tx.Recovery.Unqueue(f.seg)
	} else if !tx.fill(f, flags) {
		return 0
	}
	var p packet
	p.setFrag(f, flags)
	f.hasSeg = false
	f.out, f.cursor = 1, f.size
	tx.Timers.asked(f)
	n := tx.Links.seal(&p)
	tx.Buffers.putSegment(c, p.seg, to)
	tx.unqueue(ep, f)
	ep.awaitEnd(f)
	return n
}

// sendChunks sends the next chunks of a fragment that is larger than a packet. The chunks that
// sendChunks adds are adjacent in the batch and of equal size, so that the provider can use
// segmentation offload. sendChunks returns the number of bytes sent, headers included, and the
// number of packets.
func (tx Sender) sendChunks(ep *Endpoint, f *Fragment, quantum, budget int) (sent, packets int) {
	c, to := ep.bulkPath()
	head := frag.HeaderBytes(frag.KindChunk, f.flags())
	packet := int(f.chunk)
	if f.cursor == 0 || f.put {
		packet = ep.evenly(int(f.size-f.cursor), ep.MTU()-head)
	}
	limit := min(budget, ep.roomOn(c), port.BatchMax/2-len(c.Batch), ep.BulkRoom(),
		1+(quantum-1)/(head+packet), tx.Packs.chunksOf(ep, f, packet))
	if ep.tooLarge(head + packet) { // the path MTU has become smaller since the first chunk
		limit = min(limit, tx.Writer.partsRoom(ep, head+packet))
	}
	if f.cursor == 0 && !ep.mayNumber(splitsMax-1) {
		return 0, 0
	}
	var tokens [runMax]reliability.Token
	run := tx.Buffers.takeBulk(f, min(limit, runMax), tokens[:0])
	if len(run) == 0 {
		return 0, 0
	}
	if f.cursor == 0 {
		ep.numberFragment(f)
		f.first, f.chunk = uint16(min(f.size, uint32(packet))), uint16(packet)
		if f.Op != nil {
			ep.Remote.TakePlace(f.Op)
		}
		if !f.answer || mayGatherAnswers(ep) {
			tx.Frags.gathers(f)
		}
	}
	from := f.cursor
	var r chunkRun
	tx.Writer.beginRun(&r, f, f.flags(), run)
	for _, t := range run {
		sizeBytes := min(f.size-f.cursor, uint32(packet))
		b := tx.Port.Arena.Bytes(fabric.Buf(t))
		tx.load(f, t, b[head:][:sizeBytes])
		tx.Writer.writeChunk(&r, t, b, sizeBytes)
		f.cursor += sizeBytes
		if ep.tooLarge(int(tx.Buffers.segs[t].bytes)) {
			tx.Writer.putParts(ep, t)
		} else {
			tx.Buffers.putSegment(c, t, to)
		}
	}
	if f.cursor == f.size && !f.noticeDue() {
		tx.unqueue(ep, f)
		ep.awaitEnd(f)
	}
	return int(f.cursor-from) + len(run)*head, len(run)
}

// The method "evenly" returns the payload per packet, at most mostBytes, for a fragment of
// sizeBytes. Over a reliable fabric, the packets of a fragment have nearly equal sizes, because a
// short last packet would cost as much as a full packet.
func (ep *Endpoint) evenly(sizeBytes, mostBytes int) int {
	if !ep.ID.Counted || sizeBytes <= mostBytes {
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

// load copies the next bytes of fragment f to the slice "to" of send buffer t. If the fabric
// gathers some bytes of the fragment, load only records the offset and the length of the gathered
// bytes.
func (tx Sender) load(f *Fragment, t reliability.Token, to []byte) {
	at, gathered := f.cursor, uint16(len(to))
	if !f.Data.InRegion() {
		at, gathered = f.Data.Load(to, f.cursor)
	}
	if gathered > 0 {
		s := &tx.Buffers.segs[t]
		s.frag, s.gatherAt, s.gatherLen = f, at, gathered
		tx.Count[stats.CntSentGatheredBytes] += uint64(gathered)
	}
}

// unqueue removes a fragment from its queue, because its last packet was sent or because the
// fragment is withdrawn.
func (tx Sender) unqueue(ep *Endpoint, f *Fragment) {
	before := ep.flowOf(f).queue.remove(f)
	f.state = fragSent
	if before == nil {
		tx.Flushes.markFlush(ep, f)
	} else {
		ep.Flushes.Withdrawn(f, before)
	}
	if f.answer {
		ep.Remote.Left(f.Op, f.Data.Registered())
	}
}
