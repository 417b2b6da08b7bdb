package port

import (
	"errors"
	"fmt"
	"time"

	"gobtl/fabric"
)

// Which names one of the two channels.
type Which uint8

// The channels.
const (
	Command Which = iota // for ACKs, handshakes and small packets; polled first
	Data                 // for all other packets, and all retransmissions
)

// String is the channel's name for people.
func (w Which) String() string {
	if w == Command {
		return "command"
	}
	return "data"
}

// BatchMax is the number of sends that a channel collects before they are posted.
const BatchMax = 256

// mtuBytesMin is the smallest usable MTU, in which a handshake packet fits.
const mtuBytesMin = 256

// Channel is an endpoint of the fabric, with a batch of sends to post and with its receive buffers.
type Channel struct {
	p       *Port
	which   Which
	ep      fabric.Endpoint
	caps    fabric.Caps
	name    []byte
	sourcer fabric.Sourcer // nil if the provider does not know the source of packets
	mtu     int

	batch     []fabric.Send // to be posted; its capacity never grows
	posted    int           // sends that are not complete
	total     uint64        // sends ever posted that complete later
	apart     bool          // a packet of the batch is to leave in a Post of its own
	stuck     bool          // the fabric did not accept the whole batch in the latest poll
	comps     []fabric.Completion
	receiving int          // receive buffers posted
	repost    []fabric.Buf // receive buffers to be posted again

	idle     int           // polls since a packet arrived
	skipped  int           // calls of Progress since the latest poll
	polledAt Time          // time of the latest poll
	left     bool          // completions may be left after the latest poll
	emptyAt  Time          // time of the latest poll that left nothing
	queued   time.Duration // longest wait of the packets of the latest poll
}

func (c *Channel) open(
	p *Port, which Which, first fabric.Buf, mtu int, cfg fabric.EndpointConfig,
) error {
	ep, err := p.Dom.OpenEndpoint(cfg)
	if err != nil {
		return err
	}
	c.p, c.which, c.ep, c.caps, c.name = p, which, ep, ep.Caps(), ep.Name()
	c.sourcer, _ = ep.(fabric.Sourcer)
	if c.mtu = min(mtu, c.caps.MTUBytes); c.mtu < mtuBytesMin {
		return fmt.Errorf("%w: MTU of %d bytes, at least %d needed", ErrConfig, c.mtu, mtuBytesMin)
	}
	c.batch = make([]fabric.Send, 0, BatchMax)
	// A poll asks for PollBatch completions.
	c.comps = make([]fabric.Completion, max(p.cfg.PollBatch, cfg.RxDepth+c.caps.TxDepth))
	c.repost = make([]fabric.Buf, 0, cfg.RxDepth)
	for i := range cfg.RxDepth {
		c.repost = append(c.repost, first+fabric.Buf(i))
	}
	c.PostReceives()
	if len(c.repost) == cfg.RxDepth {
		return fmt.Errorf("%w: not one of %d receive buffers could be posted", ErrConfig, cfg.RxDepth)
	}
	return nil
}

// Which tells the two channels apart.
func (c *Channel) Which() Which { return c.which }

// MTUBytes is the size of the channel's largest datagram.
func (c *Channel) MTUBytes() int { return c.mtu }

// Caps returns the capabilities of the provider's endpoint. The capabilities never change.
func (c *Channel) Caps() *fabric.Caps { return &c.caps }

// Name is the endpoint's address on the fabric.
func (c *Channel) Name() []byte { return c.name }

// Endpoint is the provider's endpoint. Callers use the Endpoint only for the provider's
// optional interfaces.
func (c *Channel) Endpoint() fabric.Endpoint { return c.ep }

// Interpose is for tests, and replaces the provider's endpoint by the one that wrap returns.
func (c *Channel) Interpose(wrap func(fabric.Endpoint) fabric.Endpoint) { c.ep = wrap(c.ep) }

// AppendSource appends the source address of a packet to dst. AppendSource returns nil if the
// provider does not know the source address.
func (c *Channel) AppendSource(dst []byte, comp *fabric.Completion) []byte {
	if c.sourcer == nil {
		return nil
	}
	return c.sourcer.AppendSource(dst, comp)
}

// Room is the number of packets that the channel can take now.
func (c *Channel) Room() int {
	return min(cap(c.batch)-len(c.batch), c.caps.TxDepth-c.posted-len(c.batch))
}

// Batched is the number of packets that wait to be posted.
func (c *Channel) Batched() int { return len(c.batch) }

// Batch returns the packets that wait to be posted. The caller of Batch may change from
// which memory the payload of a packet is gathered.
func (c *Channel) Batch() []fabric.Send { return c.batch }

// Posted is the number of sends that are posted and not complete.
func (c *Channel) Posted() int { return c.posted }

// Stuck reports whether packets were left in the batch at the end of the latest poll, because the
// fabric could not take them.
func (c *Channel) Stuck() bool { return c.stuck }

// Put adds a packet of sizeBytes in buffer b to the batch. Room must be positive.
func (c *Channel) Put(b fabric.Buf, sizeBytes int, to fabric.Addr) {
	s := c.Next(b)
	s.To, s.Buf, s.Len = to, b, uint32(sizeBytes)
	s.Region, s.RegionLen, s.RegionOff = 0, 0, 0
}

// Next adds a send of buffer b to the batch, and returns the entry of the batch, whose fields the
// caller must all set. Room must be positive.
func (c *Channel) Next(b fabric.Buf) *fabric.Send {
	c.p.state[b] |= Busy
	c.p.alone[b] = false
	n := len(c.batch)
	c.batch = c.batch[:n+1]
	return &c.batch[n]
}

// Post posts the batch. Packets that the fabric cannot take now stay in the batch until the next
// poll. Packets that the fabric rejects for good are lost. After Post, the caller must call Refused
// and Done.
func (c *Channel) Post() {
	taken := 0
	for taken < len(c.batch) {
		end := len(c.batch)
		if c.apart {
			end = c.beside(taken)
		}
		n, err := c.ep.Post(c.batch[taken:end])
		c.noteAlone(c.batch[taken:end], n)
		c.sentAll(c.batch[taken : taken+n])
		taken += n
		if errors.Is(err, fabric.ErrAgain) {
			c.postOthers(taken)
			return
		}
		if err != nil && taken < len(c.batch) {
			c.refuse(&c.batch[taken], err)
			taken++
		}
	}
	c.batch = c.batch[:copy(c.batch, c.batch[taken:])]
	c.apart = false
}

// SetApart lets the latest packet of the batch, which is in buffer b, be posted by a call of its
// own.
func (c *Channel) SetApart(b fabric.Buf) {
	c.p.state[b] |= apart
	c.apart = true
}

// TakeOut removes a packet from the batch without sending the packet. The buffer of a
// removed packet is released as after a send, and is returned by Done.
func (c *Channel) TakeOut(at int) {
	b := c.batch[at].Buf
	c.batch = append(c.batch[:at], c.batch[at+1:]...)
	c.p.letGo(b)
}

// beside returns the index after the last packet that may be posted in one call with the
// packet at index from.
func (c *Channel) beside(from int) int {
	for i := from; i < len(c.batch); i++ {
		if c.p.state[c.batch[i].Buf]&apart != 0 {
			return max(i, from+1)
		}
	}
	return len(c.batch)
}

// noteAlone marks the packets that were posted without an adjacent packet to the same address.
// The fabric has taken the first n of the sends.
func (c *Channel) noteAlone(sends []fabric.Send, n int) {
	if n == 0 || c.p.Info.Reliable {
		return
	}
	before := fabric.AddrUnknown
	last := len(sends) - 1
	for i := range sends[:n] {
		s := &sends[i]
		if s.To != before && (i == last || sends[i+1].To != s.To) {
			c.p.alone[s.Buf] = true
		}
		before = s.To
	}
}

// postOthers posts the sends behind batch[at], a send that the fabric cannot take now. The sends
// to each peer stay in order.
func (c *Channel) postOthers(at int) {
	batch, kept := c.batch, 0
	for i := at; i < len(batch); {
		end := i
		for c.p.Info.Reliable && i > at && end < len(batch) && !GoesTo(batch[:kept], batch[end].To) {
			end++
		}
		n, err := 0, fabric.ErrAgain
		if end > i {
			n, err = c.ep.Post(batch[i:end])
			c.sentAll(batch[i : i+n])
		}
		if i += n; n > 0 && (i == end || err == nil) {
			continue
		}
		if errors.Is(err, fabric.ErrAgain) {
			batch[kept] = batch[i]
			kept++
		} else {
			c.refuse(&batch[i], err)
		}
		i++
	}
	c.batch = batch[:kept]
}

// PostOne posts a batch that has exactly one send.
func (c *Channel) PostOne() {
	taken, err := c.ep.Post(c.batch)
	switch {
	case taken == 1:
		c.noteAlone(c.batch, 1)
		c.sent(&c.batch[0])
	case errors.Is(err, fabric.ErrAgain):
		return
	default:
		c.refuse(&c.batch[0], err)
	}
	c.batch = c.batch[:0]
}

// Inject posts a packet of at most Caps.InjectBytes at once. Buffer b is free again when Inject
// returns. The batch must be empty. The errors of Inject are those of the provider.
func (c *Channel) Inject(b fabric.Buf, sizeBytes int, to fabric.Addr) error {
	s := &c.batch[:1][0]
	s.To, s.Buf, s.Len = to, b, uint32(sizeBytes)
	s.Region, s.RegionLen, s.RegionOff = 0, 0, 0
	_, err := c.ep.Post(c.batch[:1])
	return err
}

// refuse records a send that the fabric has rejected for good.
func (c *Channel) refuse(s *fabric.Send, err error) {
	c.p.refused = append(c.p.refused, Refusal{*s, err})
	c.p.letGo(s.Buf)
}

// sentAll records several posted sends.
func (c *Channel) sentAll(sends []fabric.Send) {
	p, inject := c.p, c.caps.InjectBytes
	for i := range sends {
		s := &sends[i]
		if w := &p.state[s.Buf]; *w == Busy && int(s.Len+s.RegionLen) <= inject &&
			int(s.Buf) < p.sends {
			*w = 0
			continue
		}
		c.sent(s)
	}
}

// sent records a send that the fabric has accepted.
func (c *Channel) sent(s *fabric.Send) {
	if int(s.Len+s.RegionLen) <= c.caps.InjectBytes {
		c.p.letGo(s.Buf)
	} else {
		c.posted++
		c.total++
	}
}

// SendDone records the completion of a send from buffer b. After SendDone, the caller must call
// Done.
func (c *Channel) SendDone(b fabric.Buf) {
	c.posted--
	c.p.letGo(b)
}

// lastSend marks the last send to an address to which nothing more will be sent.
type lastSend struct {
	mark  uint64 // count of sends (Channel.taken) up to the last one
	waits bool   // such a send was in the batch when last checked
}

func (c *Channel) lastSend(to fabric.Addr) lastSend {
	return lastSend{c.taken(), GoesTo(c.batch, to)}
}

func (c *Channel) hasGone(l *lastSend, to fabric.Addr) bool {
	if l.waits {
		if l.waits = GoesTo(c.batch, to); l.waits {
			l.mark = c.taken()
		}
	}
	return c.posted == 0 && len(c.batch) == 0 || c.total-uint64(c.posted) >= l.mark
}

// GoesTo reports whether any of the sends goes to an address.
func GoesTo(sends []fabric.Send, to fabric.Addr) bool {
	for i := range sends {
		if sends[i].To == to {
			return true
		}
	}
	return false
}

// taken returns the number of sends posted so far that complete later, plus the sends in the
// batch.
func (c *Channel) taken() uint64 { return c.total + uint64(len(c.batch)) }
