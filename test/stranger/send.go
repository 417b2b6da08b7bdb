package stranger

import (
	"maps"
	"slices"
	"time"
)

const (
	resendAfter = 100 * time.Millisecond
	resendLast  = 1600 * time.Millisecond
	resendHold  = time.Millisecond
	resendsMax  = 64 // in one go
)

// sender is the outgoing direction.
type sender struct {
	first, next, una uint32 // first number; next new one; oldest one not acknowledged
	limit            uint32 // last number that the peer's credits allow
	window           uint32 // the peer's
	lastFragID       uint32
	open             map[uint32]bool // slots of the fragments in chunks that are not finished
	queue            []*message
	out              map[uint32]*outgoing
	closing          bool
}

// message is a fragment, a put or a mark on its way.
type message struct {
	tag       uint8
	bytes     []byte
	put       bool
	handle    uint64
	putOffset uint64

	packed []*message // of a pack: what is in it

	fragID  uint32
	chunks  bool
	cut     int // bytes in packets already
	whole   bool
	flying  int // packets not acknowledged
	failure error
	done    chan error
}

type outgoing struct {
	pkt  *Packet
	msg  *message
	sent time.Time
	wait time.Duration
}

func (s *sender) initSender(first uint32) {
	s.first, s.next, s.una = first, first, first
	s.lastFragID = uint32(random())
	s.out, s.open = map[uint32]*outgoing{}, map[uint32]bool{}
}

// before is RFC 1982's comparison.
func before(a, b uint32) bool { return int32(a-b) < 0 }

// Start queues a message; the channel tells how it ended.
func (c *Conn) Start(tag uint8, message []byte) <-chan error {
	return c.start(tag, message, false, 0, 0)
}

// Send returns when the peer has acknowledged the whole message.
func (c *Conn) Send(tag uint8, message []byte) error { return <-c.Start(tag, message) }

// Put returns when all bytes are in the peer's region.
func (c *Conn) Put(mem []byte, handle, offset uint64) error {
	return <-c.start(0, mem, true, handle, offset)
}

// Close sends a Bye behind everything else, and returns when it is acknowledged.
func (c *Conn) Close() error {
	err := <-c.Start(tagBye, nil)
	if err == nil {
		c.p.do(func() { c.end(ErrClosed) })
	}
	return err
}

func (c *Conn) start(tag uint8, mem []byte, put bool, handle, offset uint64) <-chan error {
	m := &message{
		tag: tag, bytes: mem, put: put, handle: handle, putOffset: offset, done: make(chan error, 1),
	}
	c.p.do(func() {
		switch {
		case c.state == ended:
			m.done <- c.err
		case c.closing:
			m.done <- ErrClosed
		case c.state == established && uint64(len(mem)) > uint64(c.peerMax):
			m.done <- ErrTooLarge
		default:
			c.closing = tag == tagBye
			c.queue = append(c.queue, m)
		}
	})
	return m.done
}

func (c *Conn) waiting() bool { return len(c.queue) > 0 || len(c.out) > 0 }

// pump sends what is new, as far as the peer allows.
func (c *Conn) pump(now time.Time) {
	for len(c.queue) > 0 && !before(c.limit, c.next) && c.next-c.una < c.window {
		m := c.queue[0]
		if c.open[(c.lastFragID+1)%slots] {
			break // it might be one in chunks
		}
		pkt := c.cutPacket(m)
		if m.whole {
			c.queue = c.queue[1:]
		}
		pkt.Conn, pkt.Seq = c.peerTag, c.next
		c.next++
		m.flying++
		c.out[pkt.Seq] = &outgoing{pkt: pkt, msg: m, sent: now, wait: resendAfter}
		c.piggyback(pkt)
		ch := data
		if size := len(pkt.Encode(nil)); pkt.Kind != kindChunk && size <= c.sizes[command] {
			ch = command
		}
		c.p.send(ch, c.addrs[ch], pkt)
	}
}

// cutPacket takes the next packet from a message.
func (c *Conn) cutPacket(m *message) *Packet {
	if m.packed != nil {
		return m.packPacket()
	}
	pkt := &Packet{Kind: kindFrag, Tag: m.tag}
	room := c.sizes[data] - headerBytes
	if m.put {
		room -= 16
		pkt.Flags, pkt.Handle, pkt.PutOffset = flagPut, m.handle, m.putOffset+uint64(m.cut)
	}
	if len(m.bytes) > room {
		room -= 16
		if m.cut == 0 {
			c.lastFragID++
			m.fragID = c.lastFragID
			c.open[m.fragID%slots], m.chunks = true, true
		}
		pkt.Kind, pkt.FragID = kindChunk, m.fragID
		pkt.Size, pkt.Offset = uint32(len(m.bytes)), uint32(m.cut)
		if !m.put {
			pkt.First, pkt.Grid = uint16(room), uint16(room)
		}
	}
	pkt.Payload = m.bytes[m.cut:min(m.cut+room, len(m.bytes))]
	m.cut += len(pkt.Payload)
	m.whole = m.cut == len(m.bytes)
	return pkt
}

// again sends a packet that is out once more.
func (c *Conn) again(o *outgoing) {
	o.pkt.Flags &= flagPut
	o.pkt.Ack, o.pkt.Credit, o.pkt.CreditBytes = 0, 0, 0
	c.piggyback(o.pkt)
	o.sent, o.wait = time.Now(), min(2*o.wait, resendLast)
	c.p.counts["resent"]++
	c.p.send(data, c.addrs[data], o.pkt)
}

// resend sends again what has not been acknowledged in time, the oldest first.
func (c *Conn) resend(now time.Time) {
	n := 0
	for seq := c.una; seq != c.next && n < resendsMax; seq++ {
		if o := c.out[seq]; now.Sub(o.sent) >= o.wait {
			n++
			c.again(o)
		}
	}
}

// acked takes an acknowledgement; false if it makes the packet invalid.
func (c *Conn) acked(pkt *Packet) bool {
	if pkt.Flags&flagAck == 0 {
		return true
	}
	if !before(pkt.Ack, c.next) {
		c.p.breachf("ack of %d, sent up to %d", pkt.Ack-c.first, c.next-c.first)
		return false
	}
	if before(pkt.Ack, c.una-1) {
		return true
	}
	raised := false
	if limit := pkt.Ack + uint32(max(pkt.Credit, 1)); before(c.limit, limit) {
		c.limit, raised = limit, true
	}
	switch last := c.una - 1; {
	case before(last, pkt.Ack):
		for ; c.una != pkt.Ack+1; c.una++ {
			o := c.out[c.una]
			delete(c.out, c.una)
			o.msg.flying--
			if o.msg.whole && o.msg.flying == 0 {
				if o.msg.chunks {
					delete(c.open, o.msg.fragID%slots)
				}
				o.msg.finish(o.msg.failure)
			}
		}
	case pkt.Ack == last && !raised && pkt.Flags&flagDup == 0 && c.una != c.next &&
		!c.isOld(pkt):
		if o := c.out[c.una]; time.Since(o.sent) >= resendHold {
			c.again(o)
		}
	}
	return true
}

// nacked puts a Void in the place of a refused packet, and drops what is left of its fragment.
func (c *Conn) nacked(pkt *Packet) {
	o := c.out[pkt.Seq]
	if o == nil || o.pkt.Tag == tagVoid && o.pkt.Kind == kindFrag {
		return
	}
	if pkt.Tag == nackRecord {
		c.nackedRecord(o, pkt)
		return
	}
	if o.pkt.Kind == kindPack {
		c.p.breachf("reason %d for a pack", pkt.Tag)
	}
	o.msg.failure, o.msg.whole = ErrRefused, true
	c.queue = slices.DeleteFunc(c.queue, func(m *message) bool { return m == o.msg })
	o.pkt = &Packet{Kind: kindFrag, Tag: tagVoid, Conn: c.peerTag, Seq: pkt.Seq}
	c.again(o)
}

// failAll ends every message with an error.
func (c *Conn) failAll(err error) {
	for _, m := range c.queue {
		m.failure = err
	}
	for _, seq := range slices.Collect(maps.Keys(c.out)) {
		m := c.out[seq].msg
		m.failure = err
		delete(c.out, seq)
		if m.flying--; m.flying == 0 && m.whole {
			m.finish(err)
		}
	}
	for _, m := range c.queue {
		m.finish(err)
	}
	c.queue, c.una = nil, c.next
}
