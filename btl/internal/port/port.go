package port

import (
	"cmp"
	"errors"
	"fmt"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// Time is an instant in nanoseconds on the module's clock.
type Time = mono.Time

// ErrConfig is the error of Open for sizes that the provider does not support.
var ErrConfig = errors.New("port: invalid configuration")

// Config holds the sizes of a Port.
type Config struct {
	SendBuffers     int  // number of send buffers at the beginning of the arena
	RecvDepth       int  // receive buffers that are posted on the data channel
	CommandDepth    int  // receive buffers that are posted on the command channel
	TxDepth         int  // sends that a channel may have posted; 0 is the provider's default
	RecvBufferBytes int  // kernel receive buffer of each channel; 0 is the provider's default
	CommandBytes    int  // largest datagram of the command channel
	DataBytes       int  // largest datagram of the data channel
	PollBatch       int  // maximum number of completions of one poll
	Spare           int  // receive buffers, behind those of the channels, for packets that are kept
	IdlePollEvery   int  // an idle channel is polled at least once in this number of calls
	Reliable        bool // rely on a fabric that is reliable and ordered
}

// Port is an open Domain with its two channels.
type Port struct {
	// Dom is the open Domain. Info is a copy of the Domain's description, and Arena is the
	// Domain's packet memory. The fields Dom, Info and Arena do not change after Open.
	Dom   fabric.Domain
	Info  fabric.Info
	Arena fabric.Arena

	Command, Data Channel
	Keeper        Keeper

	cfg      Config
	reliable bool
	tender   fabric.Tender // nil if the provider needs no extra calls
	tendedAt Time
	buffers
	addresses
	seen []bool // scratch of Check
}

// Open opens the two channels on a Domain. The Domain's arena must have SendBuffers +
// ControlBuffers + CommandDepth + RecvDepth + Spare buffers. The caller closes the Domain,
// also if Open fails. The errors of Open are ErrConfig and the errors of the provider.
func (p *Port) Open(dom fabric.Domain, cfg Config) error {
	p.Dom, p.Info, p.Arena, p.cfg = dom, dom.Info(), dom.Arena(), cfg
	p.reliable = p.Info.Reliable && p.Info.Ordered && cfg.Reliable
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

// FirstReceive is the index of the first receive buffer of the arena. All buffers of the arena
// before FirstReceive are for sending.
func (p *Port) FirstReceive() fabric.Buf { return fabric.Buf(p.cfg.SendBuffers + ControlBuffers) }

// Reliable reports whether the fabric delivers every packet exactly once and in the order of
// sending, and the module is configured to rely on this.
func (p *Port) Reliable() bool { return p.reliable }

// WireName is the name of the provider's wire format. Two modules can communicate only if their
// WireNames are equal.
func (p *Port) WireName() string { return cmp.Or(p.Info.Wire, p.Info.Provider) }

// Tend makes the provider perform work that the provider usually performs once in many polls, and
// is called when polls are rare.
func (p *Port) Tend(now Time) {
	if p.tender != nil && now > p.tendedAt {
		p.tendedAt = now
		p.tender.Tend()
	}
}

// Post posts the batches of both channels, and all free receive buffers. After Post, the caller
// must call Refused and Done.
func (p *Port) Post() {
	for _, c := range [...]*Channel{&p.Command, &p.Data} {
		if len(c.batch) > 0 {
			c.Post()
		}
		c.stuck = len(c.batch) > 0
		if len(c.repost) > 0 {
			c.PostReceives()
		}
	}
}

// Pending reports whether packets wait to be posted.
func (p *Port) Pending() bool { return len(p.Command.batch) > 0 || len(p.Data.batch) > 0 }

// ReceivesPending reports whether receive buffers wait to be posted.
func (p *Port) ReceivesPending() bool {
	return len(p.Command.repost) > 0 || len(p.Data.repost) > 0
}

// Check verifies the state of each buffer. A busy send buffer must be posted or in a batch. A
// control buffer must be free or busy. A receive buffer must be posted, about to be posted, kept,
// or spare. The argument lent of Check is the number of receive buffers of each channel that the
// caller holds.
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
	for _, s := range p.state {
		if s&Busy != 0 {
			busy++
		}
	}
	for _, c := range [...]*Channel{&p.Command, &p.Data} {
		if c.posted < 0 || c.posted+len(c.batch) > c.caps.TxDepth || len(c.batch) > BatchMax {
			return fmt.Errorf("%s channel: %d sends posted, %d to be posted, at most %d", c.which,
				c.posted, len(c.batch), c.caps.TxDepth)
		}
		with += c.posted + len(c.batch)
		for i := range c.batch {
			if b := c.batch[i].Buf; int(b) >= len(p.state) || p.state[b]&Busy == 0 {
				return fmt.Errorf("%s channel: buffer %d to be posted is not busy", c.which, b)
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
		depth := cap(c.repost)
		if here := c.receiving + len(c.repost) + lent[i]; here != depth || c.receiving < 0 {
			return fmt.Errorf("%s channel: %d receive buffers posted, %d to be posted, of %d", c.which,
				c.receiving, len(c.repost), depth)
		}
		for _, b := range c.repost {
			if b < first || int(b) >= p.Arena.Len() || p.seen[b] || p.Keeper.keeps(b) {
				return fmt.Errorf("%s channel: buffer %d to be posted is none, kept, or there twice",
					c.which, b)
			}
			p.seen[b] = true
		}
	}
	return p.Keeper.check(p.seen)
}
