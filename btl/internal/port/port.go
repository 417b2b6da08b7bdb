package port

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// Time is an instant in nanoseconds on the module's clock.
type Time = mono.Time

// ErrConfig means that the provider does not support the sizes that were passed to Open.
var ErrConfig = errors.New("port: invalid configuration")

// Config contains the sizes of a Port.
type Config struct {
	SendBuffers     int  // number of send buffers at the beginning of the arena
	RecvDepth       int  // receive buffers that are posted on the data channel
	CommandDepth    int  // receive buffers that are posted on the command channel
	TxDepth         int  // sends that a channel may have posted; 0 is the provider's default
	RecvBufferBytes int  // kernel receive buffer of each channel; 0 is the provider's default
	CommandBytes    int  // largest datagram of the command channel
	DataBytes       int  // largest datagram of the data channel
	PollBatch       int  // maximum number of completions of one poll
	Spare           int  // receive buffers that replace the buffers of kept packets
	IdlePollEvery   int  // an idle channel is polled at least once in this number of calls
	Reliable        bool // rely on a fabric that is reliable and ordered
}

// Port is an open Domain with its two channels.
type Port struct {
	// Dom is the open Domain. Info is a copy of the Domain's description, and Arena is the
	// Domain's packet memory. The fields Dom, Info and Arena of a Port do not change after Open.
	Dom   fabric.Domain
	Info  fabric.Info
	Arena fabric.Arena

	Command, Data Channel
	Keeper        Keeper

	cfg      Config
	Reliable bool
	tender   fabric.Tender // nil if the provider needs no extra calls
	tendedAt Time
	buffers
	addresses
	seen []bool // scratch of Check
}

// Open opens the two channels on a Domain. The Domain's arena must have SendBuffers +
// ControlBuffers + CommandDepth + RecvDepth + Spare buffers. The caller closes the Domain, even if
// Open fails. Open returns ErrConfig, or an error of the provider.
func (p *Port) Open(dom fabric.Domain, cfg Config) error {
	p.Dom, p.Info, p.Arena, p.cfg = dom, dom.Info(), dom.Arena(), cfg
	p.Reliable = p.Info.Reliable && p.Info.Ordered && cfg.Reliable
	p.tender, _ = dom.(fabric.Tender)
	p.buffers.init(cfg.SendBuffers, p.Arena.Len())
	p.addresses.init()
	first := p.FirstReceive()
	p.Keeper.init(&p.Arena, first, cfg.CommandDepth+cfg.RecvDepth, cfg.Spare)
	data := fabric.EndpointConfig{
		TxDepth: cfg.TxDepth, RxDepth: cfg.RecvDepth, RecvBufferBytes: cfg.RecvBufferBytes,
	}
	command := data
	if command.RxDepth = cfg.CommandDepth; cfg.CommandDepth < cfg.RecvDepth {
		command.TxDepth = min(cmp.Or(cfg.TxDepth, cfg.CommandDepth), cfg.CommandDepth)
	}
	if err := p.Command.open(p, Command, first, cfg.CommandBytes, command); err != nil {
		return fmt.Errorf("command channel: %w", err)
	}
	err := p.Data.open(p, Data, first+fabric.Buf(cfg.CommandDepth), cfg.DataBytes, data)
	if err != nil {
		return fmt.Errorf("data channel: %w", err)
	}
	return nil
}

// FirstReceive returns the index of the first receive buffer of the arena. All buffers of the arena
// before the first receive buffer are for sending.
func (p *Port) FirstReceive() fabric.Buf { return fabric.Buf(p.cfg.SendBuffers + ControlBuffers) }

// WireName returns the name of the provider's wire format. Two modules can communicate only if
// their WireNames are equal.
func (p *Port) WireName() string { return cmp.Or(p.Info.Wire, p.Info.Provider) }

// Tend makes the provider immediately do the maintenance that it otherwise does once in many polls.
// The caller calls Tend when polls are rare.
func (p *Port) Tend(now Time) {
	if p.tender != nil && now > p.tendedAt {
		p.tendedAt = now
		p.tender.Tend()
	}
}

// Post posts the batches of the command channel and the data channel, and all free receive buffers.
// After Post, the caller must call Refused and Done.
func (p *Port) Post(now Time) {
	for _, c := range [...]*Channel{&p.Command, &p.Data} {
		if len(c.Batch) > 0 {
			c.Post()
		}
		if c.Stuck = len(c.Batch) > 0; c.Stuck && c.stuckAt == 0 {
			c.stuckAt = now
		}
		if len(c.Repost) > 0 {
			c.PostReceives()
		}
	}
}

// Pending reports whether packets wait to be posted.
func (p *Port) Pending() bool { return len(p.Command.Batch) > 0 || len(p.Data.Batch) > 0 }

// RetryAt returns the time by which the waiting packets of the command channel and the data channel
// must be posted. If a waiting packet was not offered to the fabric yet, RetryAt returns the
// argument "now".
func (p *Port) RetryAt(now Time) Time { return p.Command.retryAt(now).Min(p.Data.retryAt(now)) }

// Paused reports whether packets wait to be posted, but the time of the next attempt to post them
// (see RetryAt) is later than "now".
func (p *Port) Paused(now Time) bool { return p.Pending() && p.RetryAt(now) > now }

// The method "retryAt" returns the time by which the batch must be posted, or Never if the batch is
// empty. If the fabric has accepted nothing for longer than stuckPatience, the pauses between two
// attempts grow, so that the caller can sleep.
func (c *Channel) retryAt(now Time) Time {
	const (
		stuckPatience = time.Millisecond
		stuckShare    = 8
		pauseMax      = time.Millisecond
	)
	stuck := now.Sub(c.stuckAt)
	switch {
	case len(c.Batch) == 0:
		return mono.Never
	case len(c.Batch) > c.tried || c.stuckAt == 0 || stuck < stuckPatience:
		return now
	}
	return now.Add(min(stuck/stuckShare, pauseMax))
}

// ReceivesPending reports whether receive buffers wait to be posted.
func (p *Port) ReceivesPending() bool {
	return len(p.Command.Repost) > 0 || len(p.Data.Repost) > 0
}

// Check returns an error if the state of a buffer is inconsistent, and nil otherwise. A busy send
// buffer must be posted or in a batch. A control buffer must be free or busy. A receive buffer must
// be posted, about to be posted, kept, or spare. The argument "lent" of Check contains, for each
// channel, the number of receive buffers that the caller is processing.
func (p *Port) Check(lent [2]int) error {
	if p.seen == nil {
		p.seen = make([]bool, p.Arena.Len())
	}
	if err := p.checkControl(); err != nil {
		return err
	}
	if err := p.checkPosted(); err != nil {
		return err
	}
	return p.checkReceives(lent)
}

func (p *Port) checkPosted() error {
	with, busy := 0, 0
	for _, s := range p.State {
		if s&Busy != 0 {
			busy++
		}
	}
	for _, c := range [...]*Channel{&p.Command, &p.Data} {
		if c.Posted < 0 || c.Posted+len(c.Batch) > c.Caps.TxDepth || len(c.Batch) > BatchMax {
			return fmt.Errorf("%s channel: %d sends posted, %d to be posted, at most %d", c.Which,
				c.Posted, len(c.Batch), c.Caps.TxDepth)
		}
		with += c.Posted + len(c.Batch)
		for i := range c.Batch {
			if b := c.Batch[i].Buf; int(b) >= len(p.State) || p.State[b]&Busy == 0 {
				return fmt.Errorf("%s channel: buffer %d to be posted is not busy", c.Which, b)
			}
		}
	}
	if with != busy {
		return fmt.Errorf("%d buffers on the wire, %d sends posted or to be posted", busy, with)
	}
	return nil
}

func (p *Port) checkReceives(lent [2]int) error {
	clear(p.seen)
	first := p.FirstReceive()
	for i, c := range [...]*Channel{&p.Command, &p.Data} {
		depth := cap(c.Repost)
		if here := c.receiving + len(c.Repost) + lent[i]; here != depth || c.receiving < 0 {
			return fmt.Errorf("%s channel: %d receive buffers posted, %d to be posted, of %d", c.Which,
				c.receiving, len(c.Repost), depth)
		}
		for _, b := range c.Repost {
			if b < first || int(b) >= p.Arena.Len() || p.seen[b] || p.Keeper.keeps(b) {
				return fmt.Errorf("%s channel: buffer %d to be posted is none, kept, or there twice",
					c.Which, b)
			}
			p.seen[b] = true
		}
	}
	return p.Keeper.check(p.seen)
}
