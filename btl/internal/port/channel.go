package port

import (
	"fmt"
	"time"

	"gobtl/fabric"
)

// Which names one of the two channels.
type Which uint8

// The channels. Handshakes use both channels. Over a reliable fabric, Command carries all
// fragments, and Data carries the ACKs.
const (
	Command Which = iota // for ACKs and small packets; polled first
	Data                 // for all large packets, and all retransmissions
)

// String returns the channel's name in readable form.
func (w Which) String() string {
	if w == Command {
		return "command"
	}
	return "data"
}

// BatchMax is the maximum number of sends in a channel's batch. A batch is a list of sends that
// wait to be posted.
const BatchMax = 256

// mtuBytesMin is the smallest usable MTU, which is large enough for every handshake packet.
const mtuBytesMin = 256

// Channel is a fabric endpoint, together with its receive buffers and a batch of sends that wait to
// be posted.
type Channel struct {
	p        *Port
	Which    Which
	Endpoint fabric.Endpoint
	Caps     fabric.Caps
	Name     []byte
	sourcer  fabric.Sourcer // nil if the provider does not know the source of packets
	MTUBytes int
	answers  answerBound

	Batch       []fabric.Send // to be posted; its capacity never grows
	Posted      int           // sends that are not complete
	total       uint64        // sends ever posted that did not complete during Post
	apart       bool          // a packet of the batch must be posted in a separate call
	Stuck       bool          // in the latest poll, the fabric did not accept the whole batch
	tried       int           // packets that the fabric did not accept in the latest Post
	stuckAt     Time          // from this time on, the fabric has accepted no packet; or 0
	Completions []fabric.Completion
	receiving   int          // receive buffers posted
	Repost      []fabric.Buf // receive buffers to be posted again

	Idle     int           // polls since a packet arrived
	skipped  int           // calls of Progress since the latest poll
	polledAt Time          // time of the latest poll
	Left     bool          // completions are possibly left after the latest poll
	emptyAt  Time          // time of the latest poll that left no completion
	Queued   time.Duration // longest time that packets of the latest poll have waited
}

func (c *Channel) open(
	p *Port, which Which, first fabric.Buf, mtu int, cfg fabric.EndpointConfig,
) error {
	ep, err := p.Dom.OpenEndpoint(cfg)
	if err != nil {
		return err
	}
	c.p, c.Which, c.Endpoint, c.Caps, c.Name = p, which, ep, ep.Caps(), ep.Name()
	c.sourcer, _ = ep.(fabric.Sourcer)
	c.answers.backlogger, _ = ep.(fabric.Backlogger)
	if c.MTUBytes = min(mtu, c.Caps.MTUBytes); c.MTUBytes < mtuBytesMin {
		return fmt.Errorf("%w: MTU of %d bytes, at least %d needed", ErrConfig, c.MTUBytes, mtuBytesMin)
	}
	c.Batch = make([]fabric.Send, 0, BatchMax)
	// A poll asks the fabric for at most PollBatch completions.
	c.Completions = make([]fabric.Completion, max(p.cfg.PollBatch, cfg.RxDepth+c.Caps.TxDepth))
	c.Repost = make([]fabric.Buf, 0, cfg.RxDepth)
	for i := range cfg.RxDepth {
		c.Repost = append(c.Repost, first+fabric.Buf(i))
	}
	c.PostReceives()
	if len(c.Repost) == cfg.RxDepth {
		return fmt.Errorf("%w: not one of %d receive buffers could be posted", ErrConfig, cfg.RxDepth)
	}
	return nil
}

// Interpose replaces the provider's endpoint by the result of the function "wrap". Interpose is for
// tests only.
func (c *Channel) Interpose(wrap func(fabric.Endpoint) fabric.Endpoint) {
	c.Endpoint = wrap(c.Endpoint)
	c.answers.backlogger, _ = c.Endpoint.(fabric.Backlogger)
}

// AppendSource appends the source address of a packet to the slice "dst", and returns the extended
// slice, or nil if the provider does not know the source address.
func (c *Channel) AppendSource(dst []byte, comp *fabric.Completion) []byte {
	if c.sourcer == nil {
		return nil
	}
	return c.sourcer.AppendSource(dst, comp)
}

// Room returns the number of packets that can be added to the channel's batch at present.
func (c *Channel) Room() int {
	return min(cap(c.Batch)-len(c.Batch), c.Caps.TxDepth-c.Posted-len(c.Batch))
}
