package peer

import (
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
	Urgent bool // the fragment may be sent before fragments that were queued earlier
	Told   bool // an error is reported to the caller, and not by the next Flush
}

// Send sends or queues fragment f, as btl.Endpoint.Send describes. Send returns true if f is done,
// and freed.
func (tx *Sender) Send(ep *Endpoint, now mono.Time, f *Fragment, how SendOptions) (
	done bool, err error,
) {
	tx.At(now)
	if f.State != FragLent || f.Ep != ep {
		return false, ErrState
	}
	if err := ep.Usable(); err != nil {
		return false, err
	}
	ep.Snd.Rest(tx.Clock.Now)
	if f.size > ep.FragBytesMax { // the peer may have announced its limit after f was lent
		return false, ErrTooLarge
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
	tx.dirty = true
	tx.Count[stats.CntSentPayloadBytes] += uint64(f.size)
	if tx.fastSend(ep, f) {
		tx.Count[stats.CntSendsFast]++
		if f.Out != 0 { // the fragment ends with its acknowledgement
			f.State = FragSent
			tx.Frags.Lent--
			return false, nil
		}
		tx.Count[stats.CntDone]++
		tx.Frags.FreeFrag(f)
		return true, nil
	}
	if tx.Packs.packSend(ep, f) {
		tx.Count[stats.CntSendsPacked]++
		if f.signal {
			tx.Frags.Lent--
			return false, nil
		}
		tx.Count[stats.CntDone]++
		tx.Frags.FreeFrag(f)
		return true, nil
	}
	tx.Count[stats.CntSendsQueued]++
	tx.Frags.Lent--
	tx.Enqueue(ep, f)
	return false, nil
}

// SendImmediate does the work of btl.Endpoint.SendImmediate.
func (tx *Sender) SendImmediate(ep *Endpoint, now mono.Time, tag uint8, data []byte) error {
	tx.Tick(now)
	if tag > frag.TagUserMax {
		return ErrTag
	}
	if err := ep.Usable(); err != nil {
		return err
	}
	ep.Snd.Rest(tx.Clock.Now)
	if len(data) > min(ep.MaxTiny(), int(ep.FragBytesMax)) {
		return ErrTooLarge
	}
	alone := ep.alone()
	if ep.ID.Counted && alone && tx.express(ep, tag, data) {
		return nil
	}
	tx.Rest.Stir()
	var t reliability.Token
	path := stats.CntSendsFast
	if (alone || !tx.Packs.Fits(ep, len(data))) && tx.fastOpen(ep, &tx.Port.Command, nil, alone) &&
		tx.Buffers.takeSeg(ep, &t) {
		copy(tx.Port.Arena.Bytes(SegBuf(t))[frag.FragHeaderBytes:], data)
		p := packet{ep: ep, seg: t}
		p.Kind, p.Tag, p.PayloadLen = frag.KindFrag, tag, uint16(len(data))
		tx.postFast(&p, &tx.Port.Command, ep.CmdAddr, alone)
	} else if tx.Packs.packData(ep, tag, data) {
		path = stats.CntSendsPacked
	} else {
		tx.Count[stats.CntSendsRefused]++
		return tx.Outbox.again(ep, wantsImmediate)
	}
	tx.dirty = true
	tx.Count[stats.CntSentPayloadBytes] += uint64(len(data))
	tx.Count[path]++
	tx.Count[stats.CntDone]++
	return nil
}

// companyMax and trainMax are the numbers of packets of a burst at which a batch is posted.
const (
	CompanyMax = 8 // over a reliable fabric
	TrainMax   = 32
)

// companyOn returns the number of packets at which a burst in the batch of channel c is posted.
func (tx *Sender) companyOn(ep *Endpoint, c *port.Channel) int {
	switch {
	case ep.ID.Counted:
		return CompanyMax
	case c == &tx.Port.Data:
		return TrainMax
	}
	return 1
}

// fastOpen reports whether a fragment may be posted to channel c immediately, ahead of queued large
// fragments. An urgent fragment f may also be posted ahead of queued small fragments.
func (tx *Sender) fastOpen(ep *Endpoint, c *port.Channel, f *Fragment, alone bool) bool {
	company := 1
	if !alone {
		company = tx.companyOn(ep, c)
	}
	return ep.overtakes(f) && !ep.Pack.Open() && ep.ID.State() == StateConnected && ep.Snd.Open() &&
		c.Batched() < company && ep.roomOn(c) > 0
}

// fastSend posts f on its channel at once if the fast path is open, and reports whether f
// was sent.
func (tx *Sender) fastSend(ep *Endpoint, f *Fragment) bool {
	flags := f.flags()
	size := f.packetBytes()
	c, to := &tx.Port.Command, ep.CmdAddr
	alone := ep.alone()
	if size > ep.Tiny { // never true over a reliable fabric
		c, to = &tx.Port.Data, ep.DataAddr
		alone = alone && ep.quiet()
		if size > ep.MTU || !alone && tx.Sched.Waiting() > 0 {
			return false
		}
	}
	if !alone && tx.Packs.packable(ep, f) {
		return false
	}
	if !tx.fastOpen(ep, c, f, alone) || !f.hasSeg && !tx.fill(f, flags) {
		return false
	}
	var p packet
	p.setFrag(f, flags)
	f.hasSeg = false
	if !f.signal && tx.Buffers.Segs[p.seg].GatherLen == 0 {
		p.frag = nil // Send returns Done at once
		tx.postFast(&p, c, to, alone)
		return true
	}
	f.Out, f.cursor = 1, f.size
	tx.Timers.asked(f)
	tx.postFast(&p, c, to, alone)
	ep.awaitEnd(f)
	return true
}

// quiet reports whether a message that is too large for the command channel would be alone in its
// batch. quiet returns true if the endpoint has sent no packet in the present call of Progress,
// and has at most two packets in flight.
func (ep *Endpoint) quiet() bool {
	const few = 2
	return ep.sentIn != ep.all.Clock.Epoch && ep.Snd.InFlight() <= few
}

func (f *Fragment) flags() frag.Flags {
	var flags frag.Flags
	if f.put {
		flags = frag.FlagPut
	}
	if f.Op != nil && f.Op.Code() != 0 {
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

// fill takes a send buffer for a fragment of one packet, and copies the payload to the buffer
// unless the fabric gathers the payload. fill returns false if no buffer is free.
func (tx *Sender) fill(f *Fragment, flags frag.Flags) bool {
	if !tx.Buffers.takeSeg(f.Ep, &f.Seg) && !tx.Buffers.borrowSeg(f, &f.Seg) {
		return false
	}
	head := frag.HeaderBytes(frag.KindFrag, flags)
	if f.Op == nil && tx.Frags.gathers(f) {
		tx.load(f, f.Seg, head, f.size)
	} else {
		b := tx.Port.Arena.Bytes(SegBuf(f.Seg))[head:]
		n := f.Data.CopyTo(b, 0)
		if f.Op != nil {
			copy(b[n:], f.Op.Notice())
		}
	}
	f.hasSeg = true
	return true
}

// unfill moves the payload of a fragment from its send buffer to separate memory, and frees the
// buffer. unfill is called if the peer's MTU is so small that the fragment does not fit into a
// packet.
func (bu *Buffers) unfill(f *Fragment) {
	bu.emptySeg(f)
	bu.giveSeg(f.Ep, f.Seg)
}

func (bu *Buffers) emptySeg(f *Fragment) {
	f.own = append(f.own[:0], f.Data.Bytes...)
	f.Data.Hold(f.own)
	bu.Recovery.Unqueue(f.Seg)
	f.hasSeg = false
}

// borrowSeg takes the send buffer for fragment f from a later fragment of the same queue, if the
// endpoint has no packet in flight that would free a buffer.
func (bu *Buffers) borrowSeg(f *Fragment, t *reliability.Token) bool {
	return !f.Ep.busy() &&
		(bu.borrowFrom(f.Next, t) || f.large && bu.borrowFrom(f.Ep.Small.Queue.First, t))
}

// borrowFrom takes the send buffer of the first fragment with a send buffer, in the part of
// the list that begins at l.
func (bu *Buffers) borrowFrom(l *Fragment, t *reliability.Token) bool {
	for ; l != nil; l = l.Next {
		if l.hasSeg {
			*t = l.Seg
			bu.emptySeg(l)
			return true
		}
	}
	return false
}

// postFast sends a packet for which fastOpen returns true. A packet of a burst is posted with
// later packets, or in the next call of Progress, because each post is expensive.
func (tx *Sender) postFast(p *packet, c *port.Channel, to fabric.Addr, alone bool) {
	sizeBytes := tx.Links.seal(p)
	if p.ep.Large.Queue.First != nil || p.ep.Small.Queue.First != nil {
		tx.Sched.overtook(p.ep, sizeBytes)
	}
	tx.Buffers.PutSegment(c, p.seg, to)
	switch {
	case alone:
		c.PostOne()
		tx.Buffers.SettleSends()
	case c.Batched() == tx.companyOn(p.ep, c):
		tx.Buffers.post(c)
	}
}

// Enqueue puts a fragment into its queue.
func (tx *Sender) Enqueue(ep *Endpoint, f *Fragment) {
	f.State, f.fence = FragQueued, ep.Flushes.Set()
	if f.hasSeg {
		tx.Recovery.Queue(f.Seg)
	}
	f.large = f.IsBye() || !ep.fitsPacket(f)
	if f.large && f.hasSeg { // the buffer was lent when packets were larger
		tx.Buffers.unfill(f)
	}
	if f.large && !ep.bulk() {
		ep.beginBulk()
	}
	q := &ep.flowOf(f).Queue
	behind := q.Last
	if f.Answer || f.urgent {
		behind = ep.ahead(q, f)
	}
	q.insert(f, behind)
	tx.Sched.Rearm(ep)
}

// sendSmall sends the next packet of an endpoint's small fragments. sendSmall returns the
// packet's length in bytes, or 0 if no packet can be sent now.
func (tx *Sender) sendSmall(ep *Endpoint) int {
	f := ep.Small.Queue.First
	if ep.Pack.Open() || tx.Packs.packable(ep, f) {
		return tx.Packs.sendPack(ep)
	}
	return tx.sendFrag(ep, f)
}

// way returns the channel for a packet of sizeBytes, and the peer's address on this channel.
func (ep *Endpoint) way(sizeBytes int) (*port.Channel, fabric.Addr) {
	if sizeBytes <= ep.Tiny {
		return &ep.all.Port.Command, ep.CmdAddr
	}
	return &ep.all.Port.Data, ep.DataAddr
}

// sendFrag sends the first fragment of a queue in its own packet. sendFrag returns the packet's
// length in bytes, or 0 if the packet cannot be sent now.
func (tx *Sender) sendFrag(ep *Endpoint, f *Fragment) int {
	flags := f.flags()
	c, to := ep.way(f.packetBytes())
	if ep.roomOn(c) <= 0 {
		return 0
	}
	if f.hasSeg {
		tx.Recovery.Unqueue(f.Seg)
	} else if !tx.fill(f, flags) {
		return 0
	}
	var p packet
	p.setFrag(f, flags)
	f.hasSeg = false
	f.Out, f.cursor = 1, f.size
	tx.Timers.asked(f)
	n := tx.Links.seal(&p)
	tx.Buffers.PutSegment(c, p.seg, to)
	tx.unqueue(ep, f)
	ep.awaitEnd(f)
	return n
}

// sendChunks sends the next chunks of a fragment that is larger than a packet, from the fragment's
// memory. The chunks are adjacent in the batch and of equal size, so that the provider can use
// segmentation offload. sendChunks returns the number of bytes sent, headers included, and the
// number of packets.
func (tx *Sender) sendChunks(ep *Endpoint, f *Fragment, quantum, budget int) (sent, packets int) {
	c, to := ep.bulkPath()
	head := frag.HeaderBytes(frag.KindChunk, f.flags())
	packet := int(f.chunk)
	if f.cursor == 0 || f.put {
		packet = ep.evenly(int(f.size-f.cursor), ep.MTU-head)
	}
	limit := min(budget, ep.roomOn(c), port.BatchMax/2-c.Batched(), ep.BulkRoom(),
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
		if !f.Answer || mayGatherAnswers(ep) {
			tx.Frags.gathers(f)
		}
	}
	from := f.cursor
	var r chunkRun
	tx.Writer.beginRun(&r, f, f.flags(), run)
	for _, t := range run {
		sizeBytes := min(f.size-f.cursor, uint32(packet))
		tx.load(f, t, head, sizeBytes)
		tx.Writer.writeChunk(&r, t, f.cursor, sizeBytes)
		f.cursor += sizeBytes
		if ep.tooLarge(int(tx.Buffers.Segs[t].Bytes)) {
			tx.Writer.putParts(ep, t)
		} else {
			tx.Buffers.PutSegment(c, t, to)
		}
	}
	if f.cursor == f.size && !f.noticeDue() {
		tx.unqueue(ep, f)
		ep.awaitEnd(f)
	}
	return int(f.cursor-from) + len(run)*head, len(run)
}

// evenly returns the payload per packet, at most mostBytes, for a fragment of sizeBytes. Over a
// reliable fabric the packets have nearly equal sizes, because a short last packet would cost as
// much as a full one.
func (ep *Endpoint) evenly(sizeBytes, mostBytes int) int {
	if !ep.ID.Counted || sizeBytes <= mostBytes {
		return mostBytes
	}
	packets := 1 + (sizeBytes-1)/mostBytes
	return min(mostBytes, (sizeBytes/packets+EvenBytes-1)&^(EvenBytes-1))
}

// EvenBytes is the size of a cache line, to which the payloads of a fragment's packets are aligned
// where possible.
const EvenBytes = 64

// runMax is the maximum number of adjacent chunks that sendChunks adds to the batch in one call.
const runMax = 64

// load puts the fragment's next sizeBytes into send buffer t, behind headBytes of space for the
// header. Of bytes that the fabric gathers, load only records the place and length.
func (tx *Sender) load(f *Fragment, t reliability.Token, headBytes int, sizeBytes uint32) {
	at, gathered := f.Data.Load(tx.Port.Arena.Bytes(SegBuf(t))[headBytes:][:sizeBytes], f.cursor)
	if gathered > 0 {
		s := &tx.Buffers.Segs[t]
		s.Frag, s.GatherAt, s.GatherLen = f, at, gathered
		tx.Count[stats.CntSentGatheredBytes] += uint64(gathered)
	}
}

// unqueue removes a fragment from its queue, because the fragment's last packet was sent or the
// fragment is withdrawn.
func (tx *Sender) unqueue(ep *Endpoint, f *Fragment) {
	before := ep.flowOf(f).Queue.remove(f)
	f.State = FragSent
	if before == nil {
		tx.Flushes.markFlush(ep, f)
	} else {
		ep.Flushes.Withdrawn(f, before)
	}
	if f.Answer {
		ep.Remote.Left(f.Op, f.Data.Registered())
	}
}
