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
	Command Which = iota // ACKs, handshakes, tiny packets; polled first
	Data                 // everything else, and every packet that is sent again
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

// mtuBytesMin holds a handshake packet.
const mtuBytesMin = 256

// Channel is an endpoint of the fabric with the batch of sends that are to be posted, and the
// receive buffers that are.
type Channel struct {
	p       *Port
	which   Which
	ep      fabric.Endpoint
	caps    fabric.Caps
	name    []byte
	sourcer fabric.Sourcer // nil where nobody knows where datagrams come from
	mtu     int

	batch     []fabric.Send // to be posted; its capacity never grows
	posted    int           // sends whose completion is due
	total     uint64        // sends ever posted that complete later
	apart     bool          // a packet of the batch is to leave in a Post of its own
	stuck     bool          // the fabric could not take all of the batch at the end of the latest pass
	comps     []fabric.Completion
	receiving int          // receive buffers posted
	repost    []fabric.Buf // receive buffers to be posted again

	idle     int           // polls since something arrived
	skipped  int           // passes since the latest poll
	polledAt Time          // when that was
	left     bool          // the latest poll may have left something
	emptyAt  Time          // when a poll left nothing
	queued   time.Duration // for how long what the latest poll has brought may have waited
}

func (c *Channel) open(p *Port, which Which, first fabric.Buf, mtu int) error {
	cfg := &p.cfg
	ep, err := p.Dom.OpenEndpoint(fabric.EndpointConfig{
		TxDepth: cfg.TxDepth, RxDepth: cfg.RecvDepth, RecvBufferBytes: cfg.RecvBufferBytes,
	})
	if err != nil {
		return err
	}
	c.p, c.which, c.ep, c.caps, c.name = p, which, ep, ep.Caps(), ep.Name()
	c.sourcer, _ = ep.(fabric.Sourcer)
	if c.mtu = min(mtu, c.caps.MTUBytes); c.mtu < mtuBytesMin {
		return fmt.Errorf("%w: MTU of %d bytes, at least %d needed", ErrConfig, c.mtu, mtuBytesMin)
	}
	c.batch = make([]fabric.Send, 0, BatchMax)
	// A poll asks for PollBatch of these; a poll with a landing may ask for all that can come.
	c.comps = make([]fabric.Completion, max(cfg.PollBatch, cfg.RecvDepth+c.caps.TxDepth))
	c.repost = make([]fabric.Buf, 0, cfg.RecvDepth)
	for i := range cfg.RecvDepth {
		c.repost = append(c.repost, first+fabric.Buf(i))
	}
	c.PostReceives()
	if len(c.repost) == cfg.RecvDepth {
		return fmt.Errorf("%w: not one of %d receive buffers could be posted", ErrConfig, cfg.RecvDepth)
	}
	return nil
}

// Which says which channel this is.
func (c *Channel) Which() Which { return c.which }

// MTUBytes is the largest datagram of the channel.
func (c *Channel) MTUBytes() int { return c.mtu }

// Caps is what the provider's endpoint can do. It does not change.
func (c *Channel) Caps() *fabric.Caps { return &c.caps }

// Name is the endpoint's address on the fabric.
func (c *Channel) Name() []byte { return c.name }

// Endpoint is the provider's endpoint, for its optional interfaces alone.
func (c *Channel) Endpoint() fabric.Endpoint { return c.ep }

// Interpose lets tests stand between the channel and the provider: all calls of the fabric go to
// the endpoint that wrap makes of the present one.
func (c *Channel) Interpose(wrap func(fabric.Endpoint) fabric.Endpoint) { c.ep = wrap(c.ep) }

// AppendSource appends the address that a packet came from to dst; nil if the provider does not
// know it.
func (c *Channel) AppendSource(dst []byte, comp *fabric.Completion) []byte {
	if c.sourcer == nil {
		return nil
	}
	return c.sourcer.AppendSource(dst, comp)
}

// Room is the number of packets that the channel takes now.
func (c *Channel) Room() int {
	return min(cap(c.batch)-len(c.batch), c.caps.TxDepth-c.posted-len(c.batch))
}

// Batched is the number of packets that wait to be posted.
func (c *Channel) Batched() int { return len(c.batch) }

// Batch is the packets that wait to be posted. The caller may change where a payload is gathered
// from.
func (c *Channel) Batch() []fabric.Send { return c.batch }

// Posted is the number of sends whose completion is due.
func (c *Channel) Posted() int { return c.posted }

// Stuck says whether the fabric could not take all of the batch at the end of the latest pass.
func (c *Channel) Stuck() bool { return c.stuck }

// Put adds a packet of sizeBytes in a buffer to the batch. There must be Room.
func (c *Channel) Put(b fabric.Buf, sizeBytes int, to fabric.Addr) {
	s := c.Next(b)
	s.To, s.Buf, s.Len = to, b, uint32(sizeBytes)
	s.Region, s.RegionLen, s.RegionOff = 0, 0, 0
}

// Next adds a send of a buffer to the batch, of which the caller fills in every field. There must
// be Room. (A struct that is built elsewhere and copied costs as much as all the rest, because the
// processor waits for its fields to be written.)
func (c *Channel) Next(b fabric.Buf) *fabric.Send {
	c.p.state[b] |= Busy
	c.p.alone[b] = false
	n := len(c.batch)
	c.batch = c.batch[:n+1]
	return &c.batch[n]
}

// Post posts the batch. What the fabric cannot take now stays for the next pass. What it refuses is
// lost, as a packet can be. Call Refused and Done afterwards.
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

// SetApart makes the latest packet of the batch, which is in b, leave in a Post of its own. A
// provider makes one message of packets of a Post that follow each other, and a device may let that
// message pass where it drops a single packet.
func (c *Channel) SetApart(b fabric.Buf) {
	c.p.state[b] |= apart
	c.apart = true
}

// TakeOut takes a packet out of the batch that is not to be sent. Its buffer is as after a send
// that the fabric has let go of: call Done.
func (c *Channel) TakeOut(at int) {
	b := c.batch[at].Buf
	c.batch = append(c.batch[:at], c.batch[at+1:]...)
	c.p.letGo(b)
}

// beside is up to where the batch may be posted in one call, from a place on.
func (c *Channel) beside(from int) int {
	for i := from; i < len(c.batch); i++ {
		if c.p.state[c.batch[i].Buf]&apart != 0 {
			return max(i, from+1)
		}
	}
	return len(c.batch)
}

// noteAlone marks the packets that have left with no other packet to the same address beside them:
// of some sends the fabric has taken the first n.
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

// postOthers goes on behind a send that the fabric cannot take now, batch[at]. A fabric that keeps
// what a peer does not take may have no more room for that peer alone: sends to others go on, but
// none passes an earlier send to the same peer.
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

// PostOne is Post for a batch of one.
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

// Inject posts a packet that is no larger than Caps.InjectBytes at once, from a buffer that is free
// again when Inject returns. The batch must be empty. The error is the provider's.
func (c *Channel) Inject(b fabric.Buf, sizeBytes int, to fabric.Addr) error {
	s := &c.batch[:1][0]
	s.To, s.Buf, s.Len = to, b, uint32(sizeBytes)
	s.Region, s.RegionLen, s.RegionOff = 0, 0, 0
	_, err := c.ep.Post(c.batch[:1])
	return err
}

// refuse notes a send that the fabric will never take.
func (c *Channel) refuse(s *fabric.Send, err error) {
	c.p.refused = append(c.p.refused, Refusal{*s, err})
	c.p.letGo(s.Buf)
}

// sentAll is sent for several.
func (c *Channel) sentAll(sends []fabric.Send) {
	p, inject := c.p, c.caps.InjectBytes
	for i := range sends {
		s := &sends[i]
		// As it mostly is: done with, and not acknowledged meanwhile.
		if w := &p.state[s.Buf]; *w == Busy && int(s.Len+s.RegionLen) <= inject &&
			int(s.Buf) < p.sends {
			*w = 0
			continue
		}
		c.sent(s)
	}
}

// sent notes a send that the fabric has taken.
func (c *Channel) sent(s *fabric.Send) {
	if int(s.Len+s.RegionLen) <= c.caps.InjectBytes {
		c.p.letGo(s.Buf)
	} else {
		c.posted++
		c.total++
	}
}

// SendDone notes the completion of a send. Call Done afterwards.
func (c *Channel) SendDone(b fabric.Buf) {
	c.posted--
	c.p.letGo(b)
}

// lastSend is up to where sends may be under way to an address that nothing is sent to any more.
type lastSend struct {
	mark  uint64 // as of Channel.taken
	waits bool   // one was in the batch at the latest look
}

func (c *Channel) lastSend(to fabric.Addr) lastSend {
	return lastSend{c.taken(), GoesTo(c.batch, to)}
}

// hasGone says whether the last send to an address has completed. A send that waits in the batch
// may be passed by others: then it is a later one than it was.
func (c *Channel) hasGone(l *lastSend, to fabric.Addr) bool {
	if l.waits {
		if l.waits = GoesTo(c.batch, to); l.waits {
			l.mark = c.taken()
		}
	}
	return c.posted == 0 && len(c.batch) == 0 || c.total-uint64(c.posted) >= l.mark
}

// GoesTo says whether one of some sends goes to an address.
func GoesTo(sends []fabric.Send, to fabric.Addr) bool {
	for i := range sends {
		if sends[i].To == to {
			return true
		}
	}
	return false
}

// taken counts the sends that will complete, up to the last one of the batch.
func (c *Channel) taken() uint64 { return c.total + uint64(len(c.batch)) }
