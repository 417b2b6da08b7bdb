package btl

import (
	"time"

	"gobtl/frag"
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

// keptAlive is what an endpoint knows of the silence of its channels, by via. The instants are on
// the axis of clock.nowUnpaused.
type keptAlive struct {
	lookedAt Time
	since    [frag.ProbeCount]Time   // the channel may have been silent since then
	sent     [frag.ProbeCount]uint32 // number of the last packet, as of lookedAt
	asking   [frag.ProbeCount]bool   // no answer has come to the last question
}

// beginKeepAlive has the silence of all channels counted from now on.
func (m *Module) beginKeepAlive(ep *Endpoint) {
	ep.kept = keptAlive{lookedAt: m.nowUnpaused}
	for v := range ep.kept.since {
		ep.kept.since[v], ep.kept.sent[v] = m.nowUnpaused, uint32(ep.numbers.ways[v].next)
	}
}

// askKeepAlive asks for a sign of life by a channel.
func (m *Module) askKeepAlive(ep *Endpoint, p frag.Probe) {
	m.askHello(ep, p)
	v := viaOf(p)
	ep.kept.since[v], ep.kept.sent[v] = m.nowUnpaused, uint32(ep.numbers.ways[v].next)
	ep.kept.asking[v] = true
}

// keepChannelsAlive asks by the channels that have been silent for KeepAlive, or for a quarter of
// it if the question before was not answered. It returns the time until the next look at them. A
// counted connection has all but its ACKs on one channel, and no firewall before it.
func (m *Module) keepChannelsAlive(ep *Endpoint) time.Duration {
	if m.cfg.KeepAlive <= 0 {
		return time.Hour
	}
	next := m.cfg.KeepAlive / 2
	for p := range frag.Probe(frag.ProbeCount) {
		v := viaOf(p)
		if ep.counted && v == viaData {
			continue
		}
		if sent := uint32(ep.numbers.ways[v].next); sent != ep.kept.sent[v] {
			ep.kept.since[v], ep.kept.sent[v] = ep.kept.lookedAt, sent
		}
		most := m.cfg.KeepAlive
		if ep.kept.asking[v] {
			most /= 4
		}
		left := most - m.nowUnpaused.Sub(ep.kept.since[v])
		if left <= 0 {
			m.askKeepAlive(ep, p)
			left = m.cfg.KeepAlive / 4
		}
		next = min(next, left)
	}
	ep.kept.lookedAt = m.nowUnpaused
	return max(next, time.Millisecond)
}

// onKeepAlive asks a silent peer for a sign of life, and gives it up after PeerTimeout.
func (m *Module) onKeepAlive(ep *Endpoint) {
	quiet := m.nowUnpaused.Sub(ep.heardAt)
	if m.pressForAnswer(ep, quiet) {
		m.keepChannelsAlive(ep)
		return
	}
	if ep.pressed = ep.pressed && quiet >= m.pressAfter(); !ep.pressed && quiet < m.cfg.KeepAlive {
		m.setTimer(ep, min(m.cfg.KeepAlive-quiet, m.keepChannelsAlive(ep)))
		return
	}
	if !ep.pressed && m.cfg.KeepAlive < 0 {
		return
	}
	if !m.askAgain(ep, quiet) {
		m.end(ep, EventFailed, ErrPeerDead)
		return
	}
	m.askKeepAlive(ep, frag.ProbeCommand)
	every := min(m.pressAfter(), m.keepChannelsAlive(ep))
	m.setTimer(ep, m.nextQuestion(ep, every, quiet))
}
