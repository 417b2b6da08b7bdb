package btl

import (
	"time"

	"gobtl/btl/internal/liveness"
	"gobtl/frag"
)

// askKeepAlive sends a keep-alive probe by a channel.
func (m *Module) askKeepAlive(ep *Endpoint, p frag.Probe) {
	m.askHello(ep, p)
	v := viaOf(p)
	ep.life.AskedBy(int(v), m.nowUnpaused, uint32(ep.numbers.ways[v].next))
}

// keepChannelsAlive probes by the channels that have been silent for too long, and returns the time
// until its next call. A counted connection has all packets but ACKs on one channel, and passes no
// firewall.
func (m *Module) keepChannelsAlive(ep *Endpoint) time.Duration {
	channels := liveness.Channels
	if ep.counted {
		channels = 1
	}
	ask, next := ep.life.SilentChannels(m.nowUnpaused, &m.lifeRules, ep.numbers.latest(), channels)
	for p := range frag.Probe(frag.ProbeCount) {
		if ask[viaOf(p)] {
			m.askKeepAlive(ep, p)
		}
	}
	return next
}

// onKeepAlive probes a silent peer, and declares it dead after PeerTimeout.
func (m *Module) onKeepAlive(ep *Endpoint) {
	if m.pressForAnswer(ep, ep.life.Quiet(m.nowUnpaused)) {
		m.keepChannelsAlive(ep)
		return
	}
	switch due := ep.life.SignDue(m.nowUnpaused, &m.lifeRules); due {
	case 0:
	case liveness.Forever:
		return
	default:
		m.setTimer(ep, min(due, m.keepChannelsAlive(ep)))
		return
	}
	v := ep.life.Verdict(m.nowUnpaused, &m.lifeRules, liveness.Sign, 0)
	if !m.askAgain(ep, &v) {
		m.end(ep, EventFailed, dead(&v))
		return
	}
	m.askKeepAlive(ep, frag.ProbeCommand)
	m.setTimer(ep, v.Next(min(m.lifeRules.PressAfter(), m.keepChannelsAlive(ep))))
}
