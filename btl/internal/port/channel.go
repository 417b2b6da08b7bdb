package port

import (
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
	apart     bool          // a packet of the batch must be posted in a separate call
	stuck     bool          // the fabric did not accept the whole batch in the latest poll
	comps     []fabric.Completion
	receiving int          // receive buffers posted
	repost    []fabric.Buf // receive buffers to be posted again

	idle     int           // polls since a packet arrived
	skipped  int           // calls of Progress since the latest poll
	polledAt Time          // time of the latest poll
	left     bool          // completions may be left after the latest poll
	emptyAt  Time          // time of the latest poll that left no completion
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

// Interpose is for tests, and replaces the provider's endpoint by the endpoint that the function
// wrap returns.
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
