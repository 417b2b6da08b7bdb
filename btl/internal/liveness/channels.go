package liveness

import (
	"fmt"
	"time"
)

// A firewall or a NAT between two hosts has an entry for each pair of ports, and drops an entry
// that no packet has used for some time (30 s on Linux). Each channel has its own pair of ports,
// and a connection can leave one of its channels unused for a long time. Each side of a connection
// probes the peer on every channel on which it has sent nothing for the time KeepAlive. A channel
// through which this side sends nothing counts as silent even if packets of the peer arrive through
// it, because some NATs renew an entry only for outgoing packets.

// Channels is the number of channels of a connection.
const Channels = 2

var channelNames = [Channels]string{"command", "data"}

// Sent contains the number of the latest packet that was sent on each channel.
type Sent [Channels]uint32

type channels struct {
	lookedAt Time
	since    [Channels]Time // time since which this side has possibly sent nothing on the channel
	sent     Sent           // as of lookedAt
}

// BeginChannels starts to measure how long this side sends nothing on each channel.
func (p *Peer) BeginChannels(now Time, sent Sent) {
	p.channels, p.asking = channels{lookedAt: now, sent: sent}, [Channels]bool{}
	for i := range p.since {
		p.since[i] = now
	}
}

// AskedBy records that a probe with the given packet number was sent through a channel.
func (p *Peer) AskedBy(channel int, now Time, number uint32) {
	p.since[channel], p.channels.sent[channel], p.asking[channel] = now, number, true
}

// AnsweredBy records that the peer has answered a probe that was sent through a channel.
func (p *Peer) AnsweredBy(channel int, now Time) {
	p.Answered(now)
	p.asking[channel] = false
}

// SilentChannels finds the channels on which this side has sent nothing for the time KeepAlive.
// SilentChannels examines only the first "count" channels. The result "ask" of SilentChannels is
// true for each channel on which a probe is due. A probe is due on a channel if nothing was sent
// through the channel for the time KeepAlive, or for a quarter of this time after an unanswered
// probe. The result "next" of SilentChannels is the time until SilentChannels must be called again.
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
