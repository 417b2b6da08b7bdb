package liveness

import (
	"fmt"
	"time"
)

// A firewall or a NAT between two hosts has an entry for each pair of ports, and forgets one by
// which nothing passes for a while: Linux after 30 s. Each channel has a pair of ports of its own,
// and a connection may use one of them alone for long. So each side counts the silence of each
// channel by itself, and asks the peer for a sign of life by a channel that is silent for
// KeepAlive. What counts is what this side sends: some NATs renew an entry only by that.
//
//	look      look      look      look: silent since the first one, so it asks
//	 |--------*|---------|---------|
//	           KeepAlive / 2        KeepAlive after the packet (*) at most
//
// No packet is looked at for this: the numbers that a channel gives its packets tell whether any
// was sent since the look before.

// Channels is the number of channels of a connection.
const Channels = 2

var channelNames = [Channels]string{"command", "data"}

// Sent has the number of the last packet that was sent by each channel.
type Sent [Channels]uint32

// channels is what is known of the silence of channels.
type channels struct {
	lookedAt Time
	since    [Channels]Time // the channel may have been silent since then
	sent     Sent           // as of lookedAt
	asking   [Channels]bool // no answer has come to the last question
}

// BeginChannels has the silence of all channels counted from now on.
func (p *Peer) BeginChannels(now Time, sent Sent) {
	p.channels = channels{lookedAt: now, sent: sent}
	for i := range p.since {
		p.since[i] = now
	}
}

// AskedBy notes that the peer is asked for a sign of life by a channel, with the packet of a
// number.
func (p *Peer) AskedBy(channel int, now Time, number uint32) {
	p.since[channel], p.channels.sent[channel], p.asking[channel] = now, number, true
}

// AnsweredBy notes that the peer has answered a question by a channel.
func (p *Peer) AnsweredBy(channel int, now Time) {
	p.Answered(now)
	p.asking[channel] = false
}

// SilentChannels looks at the first count channels. Ask says by which of them the peer has to be
// asked for a sign of life now: they have been silent for KeepAlive, or for a quarter of it if the
// question before was not answered. Next is the time until the next look.
func (p *Peer) SilentChannels(
	now Time, r *Rules, sent Sent, count int,
) (ask [Channels]bool, next time.Duration) {
	if r.KeepAlive <= 0 {
		return ask, time.Hour
	}
	next = r.KeepAlive / 2
	for i := range count {
		if sent[i] != p.sent[i] {
			p.since[i], p.sent[i] = p.lookedAt, sent[i]
		}
		most := r.KeepAlive
		if p.asking[i] {
			most /= 4
		}
		left := most - now.Sub(p.since[i])
		if left <= 0 {
			ask[i] = true
			left = r.KeepAlive / 4
		}
		next = min(next, left)
	}
	p.lookedAt = now
	return ask, max(next, time.Millisecond)
}

func (c *channels) check(now Time) error {
	for i, since := range c.since {
		if since > now || c.lookedAt > now {
			return fmt.Errorf("channel %d is silent since %d, looked at %d, and it is %d", i, since,
				c.lookedAt, now)
		}
	}
	return nil
}
