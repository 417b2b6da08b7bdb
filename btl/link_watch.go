package btl

import (
	"time"

	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/meet"
	"gobtl/frag"
)

// Without timers for packets a reliable endpoint finds out in another way that its peer is gone: it
// asks, when something waits for a confirmation that does not come.

// owed says whether a reliable peer owes an answer: a confirmation, or its first credits.
func (ep *Endpoint) owed() bool {
	return ep.watches() && (ep.snd.InFlight() > 0 || !ep.snd.Open())
}

// beginWatch notes that something is not confirmed from now on.
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

// askFlush asks for the confirmation that a Flush waits for, unless something is to be sent that
// does; or for the ACK.
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

// onWatch asks for a confirmation, and gives the peer up that has long not answered.
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

// askEvery is the time between questions for a confirmation. It is shorter while a question for
// what came too early has not left: there was no room for it, or the peer has not said yet that it
// is established.
func (m *Module) askEvery(ep *Endpoint) time.Duration {
	if ep.counting.missed {
		return min(m.lifeRules.AskEvery(), meet.HelloIntervalMax)
	}
	return m.lifeRules.AskEvery()
}

// noteTakes notes whether the peer says that it is established.
func (m *Module) noteTakes(ep *Endpoint, hello *frag.Hello) {
	if ep.counting.takes || hello.Proven != frag.ProvenAll {
		return
	}
	ep.counting.takes = true
	m.askMissed(ep)
}

// askMissed has a peer asked at once, now that both sides are established, whose ACKs may have come
// too early: with them went its first credits, and it does not say by itself again what they are.
func (m *Module) askMissed(ep *Endpoint) {
	if ep.counting.missed && ep.owed() && ep.state == stateConnected && ep.hs == nil &&
		!ep.closing && !ep.superseded && !ep.counting.broken {
		m.watch(ep, 0)
	}
}

// mayAnswer says whether the answer to the last question may be on its way: nothing was sent behind
// it, and the peer was heard since. Over a path that is longer than the time between two questions
// another one would be in vain. As each is owed an answer of its own, they would go on for ever. A
// peer that took no notice of it is asked again after PeerTimeout, whatever else it says.
func (m *Module) mayAnswer(ep *Endpoint) bool {
	r := ep.counts
	_, next := ep.snd.Window()
	return r.asked == next && ep.life.HeardAfter(r.askedAt) &&
		m.nowUnpaused.Sub(r.askedAt) < m.cfg.PeerTimeout
}

// ask sends a Void that asks for a confirmation. If there is no room now, the next one will do. A
// peer that is not known to be established would drop what has a number: it is asked by a Hello.
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

// onUnconfirmed goes on asking a peer of which it is not known whether it is connected too, for
// until then nothing may be sent to it.
func (m *Module) onUnconfirmed(ep *Endpoint) {
	v := ep.life.Verdict(m.nowUnpaused, &m.lifeRules, liveness.Sign, 0)
	if !m.askAgain(ep, &v) {
		m.end(ep, EventFailed, dead(&v))
		return
	}
	m.sendProbes(ep)
	m.setTimer(ep, v.Next(min(ep.hs.NextRound(), m.lifeRules.AskEvery())))
}
