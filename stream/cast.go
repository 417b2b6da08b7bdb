package stream

import (
	"errors"
	"fmt"
	"syscall"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// caster is the sender of the unreliable mode. A caster splits messages into datagrams, and posts
// the datagrams to each receiver or to the multicast group. The caster does not wait for receivers.
type caster struct {
	s         *Sender
	port      *dataPort
	ep        fabric.Endpoint
	caps      fabric.Caps
	mtu       int
	perMsg    int // payload bytes per datagram except a message's last; 0: not known yet
	datagrams uint32
	regions   []fabric.Region // registered memory of the ring, if Caps.Gather is true
	// If the field "each" is true, the fabric has a flow control for each receiver (see each.go).
	each    bool
	group   fabric.Addr
	inGroup bool
	dataKey uint64 // key in the datagrams to the group

	// The fields below are the position of the next datagram to be sent.
	seq      uint64 // number of the region
	message  uint64
	datagram uint32
	sentTo   uint64 // all lower ordinals have been sent

	batch   []fabric.Send
	single  [1]fabric.Send
	bytes   int     // payload bytes in the batch
	targets []*link // destinations of the batch; nil stands for the multicast group
	at      int     // current target of the batch
	posted  int     // number of datagrams of the batch already posted
	behind  uint64  // value of sentTo after the batch is posted
	open    []int   // by slot: sends without a completion yet
}

const (
	castBatch    = 64
	castBytesMax = 256 << 10
)

func newCaster(s *Sender) (*caster, error) {
	c := &caster{
		s: s, port: s.e.data, ep: s.e.data.main.ep, caps: s.e.data.main.caps, sentTo: s.cfg.First,
		batch: make([]fabric.Send, 0, castBatch), open: make([]int, s.ring.geo.Regions),
		behind: s.cfg.First,
	}
	c.mtu = min(c.caps.MTUBytes, c.port.arena.Size())
	if s.cfg.DatagramBytes != 0 {
		c.mtu = min(c.mtu, s.cfg.DatagramBytes)
	}
	if c.mtu <= headerBytes {
		return nil, fmt.Errorf("%w: datagrams of %d bytes", ErrConfig, c.mtu)
	}
	if s.cfg.Group != "" {
		g, ok := c.port.dom.(fabric.Grouper)
		if !ok {
			return nil, fmt.Errorf("%w: the provider has no multicast", fabric.ErrNotSupported)
		}
		addr, err := g.InsertGroup(s.cfg.Group)
		if err != nil {
			return nil, err
		}
		c.group, c.inGroup, c.dataKey = addr, true, s.e.random()
	}
	c.each = !c.inGroup && c.port.reliable
	if c.caps.Gather && !c.each {
		for _, block := range s.ring.blocks {
			region, err := c.port.dom.RegisterRegion(block)
			if err != nil {
				c.letGo()
				return nil, err
			}
			c.regions = append(c.regions, region)
		}
	}
	return c, nil
}

// cut chooses the size of datagrams. The argument datagramBytes of "cut" is an upper limit on the
// size of datagrams, where 0 means no limit. cut splits messages into as few datagrams as possible.
// All datagrams of a message except perhaps the last have the same size, so that the kernel can
// send several datagrams in one call.
func (c *caster) cut(datagramBytes int) error {
	room := c.mtu - headerBytes
	if datagramBytes > 0 {
		room = min(room, datagramBytes-headerBytes)
	}
	size := c.s.ring.geo.MessageBytes
	n := (size + room - 1) / room
	if n > datagramsMax {
		return fmt.Errorf("%w: messages of %d bytes in %d datagrams, at most %d", ErrConfig, size, n,
			datagramsMax)
	}
	c.perMsg = (size + n - 1) / n
	c.datagrams = uint32((size + c.perMsg - 1) / c.perMsg)
	return nil
}

// floorBytes is a payload size that every IPv6 path can carry, because IPv6 requires an MTU of 1280
// bytes (RFC 8200).
const floorBytes = 1200

// The method "floor" returns the smallest datagram size to which a receiver is allowed to limit the
// stream. The datagram size needs a lower limit, because a receiver with very small datagrams would
// slow down the stream for all receivers. If the sender's own largest datagram size is below the
// lower limit, the method "floor" returns the sender's own largest size.
func (c *caster) floor() int {
	most := (c.s.ring.geo.MessageBytes + datagramsMax - 1) / datagramsMax
	return min(c.mtu, max(floorBytes, most+headerBytes))
}

const datagramsMax = 1 << 16

// The method "idle" reports whether all messages in the sender's regions have been sent.
func (c *caster) idle() bool { return len(c.batch) == 0 && c.s.seqLo == c.s.seqHi }

// The method "progress" sends the datagrams that the rate permits, up to a limit per call. The
// method "progress" returns the number of datagrams in the posted batches.
func (c *caster) progress(now mono.Time) int {
	sent := 0
	for sent < 4*castBatch {
		if len(c.batch) == 0 {
			budget := c.s.pace.budget(now)
			if budget == 0 {
				break
			}
			if c.fill(budget); len(c.batch) == 0 {
				break
			}
		}
		if !c.post() {
			break
		}
		sent += len(c.batch)
		c.booked(now)
	}
	return sent
}

// fill adds the next datagrams to the batch.
func (c *caster) fill(budget int) {
	s := c.s
	g := &s.ring.geo
	c.choose()
	key := c.dataKey
	if len(c.targets) > 0 && c.targets[0] != nil {
		key = c.targets[0].dataKey
	}
	for most := c.batchMax(); c.seq < s.seqHi && len(c.batch) < most; {
		slot := int(c.seq % uint64(g.Regions))
		off := int(c.datagram) * c.perMsg
		size := min(c.perMsg, g.MessageBytes-off)
		if c.bytes > 0 && c.bytes+size > budget {
			break
		}
		last := len(c.port.txBuf) - 1
		buf := c.port.txBuf[last]
		c.port.txBuf = c.port.txBuf[:last]
		c.port.owner[buf], c.port.holds[buf] = c.source(slot), 1
		h := header{
			key: key, ordinal: s.ring.counts[slot].first + c.message, datagram: c.datagram,
		}
		mem := c.port.arena.Bytes(buf)
		h.put(mem)
		block, at := s.ring.where(slot)
		at += int(c.message)*g.MessageBytes + off
		send := fabric.Send{Buf: buf, Len: headerBytes}
		if c.regions != nil {
			send.Region, send.RegionOff, send.RegionLen = c.regions[block], uint64(at), uint32(size)
		} else {
			copy(mem[headerBytes:], s.ring.blocks[block][at:at+size])
			send.Len += uint32(size)
		}
		c.batch = append(c.batch, send)
		c.bytes += size
		c.step(slot, h.ordinal)
	}
}

// batchMax returns the largest number of datagrams of the next batch.
func (c *caster) batchMax() int {
	free := len(c.port.txBuf)
	if c.each {
		free = min(free, max(1, free/eachPart))
	}
	return min(castBatch, free)
}

// The method "source" returns the source (sentFrom) of the payload of a datagram whose message is
// in the given slot of the ring. If the fabric has a flow control for each receiver, the payload is
// copied to the send buffer, and the source does not refer to the ring, so that the sender can
// release the region before the send completes.
func (c *caster) source(slot int) sentFrom {
	if c.each {
		return sentFrom{}
	}
	return sentFrom{caster: c, slot: slot}
}

// choose sets the destinations of the next batch.
func (c *caster) choose() {
	c.bytes, c.at, c.posted = 0, 0, 0
	c.targets = c.targets[:0]
	for _, k := range c.s.links {
		if k.state == linkReady && k.hasAddr {
			k.posted = 0
			c.targets = append(c.targets, k)
		}
	}
	if c.inGroup {
		c.targets = append(c.targets[:0], nil)
	}
}

// The method "step" advances the position of the next datagram by one datagram.
func (c *caster) step(slot int, ordinal uint64) {
	if c.datagram++; c.datagram < c.datagrams {
		return
	}
	c.datagram = 0
	c.behind = ordinal + 1
	if c.message++; c.message == c.s.ring.counts[slot].messages {
		c.seq, c.message = c.seq+1, 0
	}
}

// post posts the batch to each destination, and reports whether the batch is done. The batch is
// done when the fabric has accepted the batch for each destination that is still in the stream.
func (c *caster) post() bool {
	if c.each {
		return c.postEach()
	}
	for ; c.at < len(c.targets); c.at, c.posted = c.at+1, 0 {
		k := c.targets[c.at]
		for c.posted < len(c.batch) && (k == nil || k.state == linkReady) {
			rest := c.batch[c.posted:]
			if c.aim(k, rest) < len(rest) {
				return false
			}
			n, err := c.postAimed(k, rest)
			c.posted += n
			switch {
			case err == nil:
			case errors.Is(err, fabric.ErrAgain):
				return false
			default:
				c.posted++
				if c.s.stats.SendErrors++; c.refused(err, k) {
					return false
				}
			}
		}
	}
	return true
}

// postAimed posts datagrams that the method "aim" has prepared for the destination k, and returns
// the number of accepted datagrams.
func (c *caster) postAimed(k *link, sends []fabric.Send) (int, error) {
	n, err := c.ep.Post(sends)
	for i := range sends[:n] {
		c.await(&sends[i], k)
	}
	c.s.stats.Datagrams += uint64(n)
	return n, err
}

// aim prepares datagrams of the batch for the destination k, and writes the data key of k into
// their headers. If the fabric has not completed an earlier send from a buffer, the method "aim"
// copies this buffer to a free buffer, because the fabric may still read the original buffer. The
// method "aim" returns the number of prepared datagrams. If the free buffers do not suffice, "aim"
// prepares fewer datagrams than requested, and the caller must call "aim" again after a completion.
func (c *caster) aim(k *link, sends []fabric.Send) int {
	to, key := c.group, c.dataKey
	if k != nil {
		to, key = k.addr, k.dataKey
	}
	d := c.port
	for i := range sends {
		send := &sends[i]
		send.To = to
		if d.holds[send.Buf] == 1 { // only the batch holds the buffer
			setKey(d.arena.Bytes(send.Buf), key)
			continue
		}
		last := len(d.txBuf) - 1
		if last < 0 {
			return i
		}
		buf := d.txBuf[last]
		d.txBuf = d.txBuf[:last]
		mem := d.arena.Bytes(buf)
		copy(mem, d.arena.Bytes(send.Buf)[:send.Len])
		setKey(mem, key)
		d.owner[buf], d.holds[buf] = c.source(d.owner[send.Buf].slot), 1
		d.drop(send.Buf)
		send.Buf = buf
	}
	return len(sends)
}

// The method "refused" handles an error of a send to the destination k, where nil stands for the
// multicast group. If the operating system refuses datagrams of the stream's size, the sender
// probes the path to the receiver again (see pathsize.go). If datagrams to a multicast group are
// too large, the stream ends, because the sender sends no probes to a group. The method "refused"
// reports whether the error has ended the stream.
func (c *caster) refused(err error, k *link) bool {
	switch {
	case errors.Is(err, fabric.ErrClosed):
		c.s.fail(err)
		return true
	case !errors.Is(err, syscall.EMSGSIZE):
		return false
	case k == nil:
		c.s.fail(c.errTooLarge())
		return true
	}
	k.doubt()
	return false
}

// await counts a send to the destination k, if the fabric will report the completion of this send.
// The fabric reports no completion for a send of at most Caps.InjectBytes bytes.
func (c *caster) await(s *fabric.Send, k *link) {
	if int(s.Len+s.RegionLen) > c.caps.InjectBytes {
		c.port.await(s.Buf, k)
		if c.each {
			return // the fabric does not read the ring
		}
		c.open[c.port.owner[s.Buf].slot]++
		c.s.underWay++
	}
}

// The method "booked" adds a sent batch to the counters, and releases the batch's buffers and
// regions.
func (c *caster) booked(now mono.Time) {
	s := c.s
	c.giveBack()
	if s.state == stateDone {
		return
	}
	s.stats.Sent += c.behind - c.sentTo
	s.stats.Bytes = s.stats.Sent * uint64(s.ring.geo.MessageBytes)
	if s.stats.FirstNs == 0 {
		s.stats.FirstNs = int64(now)
	}
	s.stats.LastNs = int64(now)
	s.pace.sent(now, c.bytes)
	if s.pace.active() {
		s.stats.BurstBytes = max(s.stats.BurstBytes, uint64(c.bytes))
	}
	c.sentTo = c.behind
	c.release()
}

// release releases the regions for which the fabric has completed all sends.
func (c *caster) release() {
	s := c.s
	for s.seqLo < c.seq && c.open[s.seqLo%uint64(len(c.open))] == 0 {
		s.release(s.ring.counts[s.seqLo%uint64(len(c.open))].end())
	}
}

// sentFrom is the source of a send's payload. If sentFrom.caster is nil, the whole datagram is in
// the send buffer, and the fabric does not read the ring.
type sentFrom struct {
	caster *caster
	slot   int
	link   *link // destination of a send without a completion yet; nil: the group
}

func (c *caster) giveBack() {
	for i := range c.batch {
		c.port.drop(c.batch[i].Buf)
	}
	c.batch = c.batch[:0]
}

func (d *dataPort) await(b fabric.Buf, k *link) {
	d.holds[b]++
	if d.owner[b].link = k; k != nil {
		k.underWay++
	}
}

// drop drops one reference to a send buffer, and frees the buffer after the last reference.
func (d *dataPort) drop(b fabric.Buf) {
	if d.holds[b]--; d.holds[b] == 0 {
		d.txBuf = append(d.txBuf, b)
	}
}

// The method "completed" handles the completion of a send.
func (d *dataPort) completed(b fabric.Buf) {
	o := d.owner[b]
	d.owner[b].link = nil
	d.drop(b)
	if o.link != nil {
		o.link.underWay--
		o.link.forget()
	}
	if o.caster == nil {
		return
	}
	o.caster.open[o.slot]--
	o.caster.s.underWay--
	if o.caster.s.state == stateRunning {
		o.caster.release()
	}
}

// close drops the batch's references to its send buffers.
func (c *caster) close() { c.giveBack() }

// letGo removes the multicast address from the fabric, and deregisters the ring's memory. The
// caller must not call letGo before the completion of the last send.
func (c *caster) letGo() {
	if c.inGroup {
		_ = c.port.dom.Remove(c.group)
		c.inGroup = false
	}
	for _, region := range c.regions {
		_ = c.port.dom.DeregisterRegion(region)
	}
	c.regions = nil
}
