package stream

import (
	"errors"
	"fmt"
	"syscall"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// caster is the unreliable mode's sender: it cuts messages into datagrams and posts these to every
// receiver, or to their group, whether or not anybody takes them.
type caster struct {
	s         *Sender
	port      *dataPort
	ep        fabric.Endpoint
	caps      fabric.Caps
	mtu       int
	perMsg    int // payload of each datagram of a message but the last; 0: not cut yet
	datagrams uint32
	region    fabric.Region // the ring, where the fabric gathers
	group     fabric.Addr
	inGroup   bool

	// Where the next datagram stands.
	seq      uint64 // number of the region
	message  uint64
	datagram uint32
	sentTo   uint64 // all ordinals below have been sent

	batch   []fabric.Send
	bytes   int // payload in the batch
	targets []fabric.Addr
	at      int    // target that the batch is being posted to
	posted  int    // and how much of it
	behind  uint64 // ordinal that is sentTo when the batch is posted
	open    []int  // by slot: sends without a completion
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
		c.group, c.inGroup = addr, true
	}
	if c.caps.Gather {
		region, err := c.port.dom.RegisterRegion(s.ring.mem)
		if err != nil {
			return nil, err
		}
		c.region = region
	}
	return c, nil
}

// cut decides how messages are cut into datagrams of at most so many bytes (0: no such limit): into
// as few as possible, all of one size but perhaps the last, so that the fabric can hand them down
// together.
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

// floorBytes is what every path of IPv6 carries, less the headers.
const floorBytes = 1200

// floor is the smallest size of datagrams that a receiver may ask for: one below it would slow down
// all others. A sender that is to have smaller ones has a floor of its own.
func (c *caster) floor() int {
	most := (c.s.ring.geo.MessageBytes + datagramsMax - 1) / datagramsMax
	return min(c.mtu, max(floorBytes, most+headerBytes))
}

// datagramsMax bounds the datagrams of a message.
const datagramsMax = 1 << 16

// idle says whether all that was taken has left.
func (c *caster) idle() bool { return len(c.batch) == 0 && c.s.seqLo == c.s.seqHi }

// progress sends what the pace allows, or a batch, and returns how many datagrams that were.
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

// fill makes a batch of the next datagrams.
func (c *caster) fill(budget int) {
	s := c.s
	g := &s.ring.geo
	c.bytes = 0
	for c.seq < s.seqHi && len(c.batch) < castBatch && len(c.port.txBuf) > 0 {
		slot := int(c.seq % uint64(g.Regions))
		off := int(c.datagram) * c.perMsg
		size := min(c.perMsg, g.MessageBytes-off)
		if c.bytes > 0 && c.bytes+size > budget {
			break
		}
		last := len(c.port.txBuf) - 1
		buf := c.port.txBuf[last]
		c.port.txBuf = c.port.txBuf[:last]
		c.port.owner[buf], c.port.holds[buf] = sentFrom{c, slot}, 1
		h := header{
			key: s.key, ordinal: s.ring.get(slot, wordFirst) + c.message, datagram: c.datagram,
		}
		mem := c.port.arena.Bytes(buf)
		h.put(mem)
		at := (slot*g.RegionMessages+int(c.message))*g.MessageBytes + off
		send := fabric.Send{Buf: buf, Len: headerBytes}
		if c.region != 0 {
			send.Region, send.RegionOff, send.RegionLen = c.region, uint64(at), uint32(size)
		} else {
			copy(mem[headerBytes:], s.ring.mem[at:at+size])
			send.Len += uint32(size)
		}
		c.batch = append(c.batch, send)
		c.bytes += size
		c.step(slot, h.ordinal)
	}
	c.targets = c.targets[:0]
	for _, k := range s.links {
		if k.state == linkReady && k.hasAddr {
			c.targets = append(c.targets, k.addr)
		}
	}
	if c.inGroup {
		c.targets = append(c.targets[:0], c.group)
	}
	c.at, c.posted = 0, 0
}

// step moves on behind a datagram.
func (c *caster) step(slot int, ordinal uint64) {
	if c.datagram++; c.datagram < c.datagrams {
		return
	}
	c.datagram = 0
	c.behind = ordinal + 1
	if c.message++; c.message == c.s.ring.get(slot, wordMessages) {
		c.seq, c.message = c.seq+1, 0
	}
}

// post posts the batch to every target and says whether all of it was taken.
func (c *caster) post() bool {
	for ; c.at < len(c.targets); c.at, c.posted = c.at+1, 0 {
		for i := range c.batch[c.posted:] {
			c.batch[c.posted+i].To = c.targets[c.at]
		}
		for c.posted < len(c.batch) {
			n, err := c.ep.Post(c.batch[c.posted:])
			for i := range c.batch[c.posted : c.posted+n] {
				c.await(&c.batch[c.posted+i])
			}
			c.posted += n
			c.s.stats.Datagrams += uint64(n)
			switch {
			case err == nil:
			case errors.Is(err, fabric.ErrAgain):
				return false
			default:
				c.posted++
				if c.s.stats.SendErrors++; c.refused(err) {
					return false
				}
			}
		}
	}
	return true
}

// refused ends the stream at errors that will not pass, and says so.
func (c *caster) refused(err error) bool {
	switch {
	case errors.Is(err, fabric.ErrClosed):
		c.s.fail(err)
	case errors.Is(err, syscall.EMSGSIZE):
		c.s.fail(fmt.Errorf("%w: the path takes no datagrams of %d bytes: %w", ErrMismatch,
			c.perMsg+headerBytes, err))
	default:
		return false
	}
	return true
}

// await notes that a send will have a completion, if so.
func (c *caster) await(s *fabric.Send) {
	if int(s.Len+s.RegionLen) > c.caps.InjectBytes {
		c.open[c.port.owner[s.Buf].slot]++
		c.port.holds[s.Buf]++
		c.s.underWay++
	}
}

// booked counts a batch that has left, and gives back its buffers and regions.
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

// release gives back the regions whose datagrams have left and are complete.
func (c *caster) release() {
	s := c.s
	for s.seqLo < c.seq && c.open[s.seqLo%uint64(len(c.open))] == 0 {
		slot := int(s.seqLo % uint64(len(c.open)))
		s.release(s.ring.get(slot, wordFirst) + s.ring.get(slot, wordMessages))
	}
}

// sentFrom is where a send's bytes come from; nowhere in a ring if the caster is nil.
type sentFrom struct {
	caster *caster
	slot   int
}

// giveBack ends the batch's hold on its buffers.
func (c *caster) giveBack() {
	for i := range c.batch {
		c.port.drop(c.batch[i].Buf)
	}
	c.batch = c.batch[:0]
}

// drop ends one hold on a buffer: a batch's, or that of a send without completion.
func (d *dataPort) drop(b fabric.Buf) {
	if d.holds[b]--; d.holds[b] == 0 {
		d.txBuf = append(d.txBuf, b)
	}
}

// completed learns that a send has left.
func (d *dataPort) completed(b fabric.Buf) {
	o := d.owner[b]
	d.drop(b)
	if o.caster == nil {
		return // of a probe
	}
	o.caster.open[o.slot]--
	o.caster.s.underWay--
	if o.caster.s.state == stateRunning {
		o.caster.release()
	}
}

// close gives back what the caster holds.
func (c *caster) close() {
	c.giveBack()
	if c.inGroup {
		_ = c.port.dom.Remove(c.group)
		c.inGroup = false
	}
}

// letGo is called when no send reads the ring any more.
func (c *caster) letGo() {
	if c.region != 0 {
		_ = c.port.dom.DeregisterRegion(c.region)
		c.region = 0
	}
}
