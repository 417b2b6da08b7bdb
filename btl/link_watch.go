package btl

import (
	"time"

	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/meet"
	"gobtl/frag"
)

// A counted link has no packet timers to detect a dead peer. Instead it probes the peer when an
// awaited confirmation does not come.

// owed says whether the peer of a counted link owes a confirmation, or its first credits.
func (ep *Endpoint) owed() bool {
	return ep.watches() && (ep.snd.InFlight() > 0 || !ep.snd.Open())
}

// beginWatch starts the timer for an outstanding confirmation.
func (m *Module) beginWatch(ep *Endpoint) {
	ep.life.FirstInFlight(m.nowUnpaused)
	if ep.counting.watched || ep.closing || ep.superseded || ep.counting.broken || ep.hs != nil {
		return
	}
	m.watch(ep, m.lifeRules.AskEvery())
}

func (m *Module) watch(ep *Endpoint, d time.Duration) {
	m.setTimer(ep, d)
	ep.counting.watched = true
}

// askFlush requests the confirmation (or ACK) that a Flush waits for, unless a packet that is about
// to be sent requests it.
func (m *Module) askFlush(ep *Endpoint) {
	if n := ep.flushes.len(); n > 0 && !ep.counted {
		if f := &ep.flushes.all()[n-1]; !f.waits() {
			m.askAck(ep, f.until-1)
		}
		return
	}
	if ep.watches() && ep.state == stateConnected && ep.snd.InFlight() > 0 && !ep.waiting() &&
		!ep.closing && !ep.superseded && !ep.counting.broken {
		m.watch(ep, 0)
	}
}

// onWatch probes for a confirmation, or declares a peer dead that has not answered for too long.
func (m *Module) onWatch(ep *Endpoint) {
	v := ep.life.Verdict(m.nowUnpaused, &m.lifeRules, liveness.Confirm, 0)
	if v.Owed < m.lifeRules.AskEvery() && !ep.counting.missed && m.mayAnswer(ep) {
		m.watch(ep, m.lifeRules.AskEvery())
		return
	}
	if !m.askAgain(ep, &v) {
		m.end(ep, EventFailed, dead(&v))
		return
	}
	m.ask(ep)
	m.watch(ep, v.Next(m.askEvery(ep)))
}

// askEvery is the interval between probes for a confirmation. It is shorter while a probe for
// credits that came too early is pending, for lack of room or because the peer has not said yet
// that it is established.
func (m *Module) askEvery(ep *Endpoint) time.Duration {
	if ep.counting.missed {
		return min(m.lifeRules.AskEvery(), meet.HelloIntervalMax)
	}
	return m.lifeRules.AskEvery()
}

// noteTakes notes whether the peer's Hello says that the peer is established.
func (m *Module) noteTakes(ep *Endpoint, hello *frag.Hello) {
	if ep.counting.takes || hello.Proven != frag.ProvenAll {
		return
	}
	ep.counting.takes = true
	m.askMissed(ep)
}

// askMissed probes a peer at once, now that both sides are established, if its ACKs came too early:
// they carried its first credits, which it does not repeat unasked.
func (m *Module) askMissed(ep *Endpoint) {
	if ep.counting.missed && ep.owed() && ep.state == stateConnected && ep.hs == nil &&
		!ep.closing && !ep.superseded && !ep.counting.broken {
		m.watch(ep, 0)
	}
}

// mayAnswer says whether the answer to the last probe may be on its way: no packet was sent after
// it, and the peer was heard since. If the round trip exceeds the probe interval, another probe is
// useless; as each needs its own answer, they would never end. A peer that ignores the probe is
// probed again after PeerTimeout, whatever else it sends.
func (m *Module) mayAnswer(ep *Endpoint) bool {
	r := ep.counts
	_, next := ep.snd.Window()
	return r.asked == next && ep.life.HeardAfter(r.askedAt) &&
		m.nowUnpaused.Sub(r.askedAt) < m.cfg.PeerTimeout
}

// ask sends a Void that requests a confirmation. Without room for it, the next probe will do. A
// peer that is not known to be established would drop a counted packet: it gets a Hello instead.
func (m *Module) ask(ep *Endpoint) {
	if !ep.counting.takes {
		m.askHello(ep, frag.ProbeCommand)
		m.noteAsked(ep)
		return
	}
	if ep.pack.open() { // which has been promised the next number
		sizeBytes := m.sealPack(ep)
		if sizeBytes == 0 {
			return
		}
		m.overtook(ep, sizeBytes)
	}
	if m.sendQuestion(ep) {
		ep.counting.missed = false
		m.noteAsked(ep)
		m.sched.rearm(ep) // it may have used up the credits
	}
}

func (m *Module) noteAsked(ep *Endpoint) {
	_, ep.counts.asked = ep.snd.Window()
	ep.counts.askedAt = m.nowUnpaused
}

// onUnconfirmed continues to probe a peer until it is known to be connected too, for until then
// nothing may be sent to it.
func (m *Module) onUnconfirmed(ep *Endpoint) {
	v := ep.life.Verdict(m.nowUnpaused, &m.lifeRules, liveness.Sign, 0)
	if !m.askAgain(ep, &v) {
		m.end(ep, EventFailed, dead(&v))
		return
	}
	m.sendProbes(ep)
	m.setTimer(ep, v.Next(min(ep.hs.NextRound(), m.lifeRules.AskEvery())))
}
