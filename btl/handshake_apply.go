package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/frag"
)

// What the rules of btl/internal/meet say, done to endpoints and tables.

// onProvenHello processes a Hello that carries the endpoint's tag, which only the peer can have. It
// returns the endpoint to answer as, nil for none.
func (m *Module) onProvenHello(ep *Endpoint, h *frag.Header, hello *frag.Hello) *Endpoint {
	if !m.matchesPeer(ep, h, hello) {
		return nil
	}
	ep.life.Heard(m.nowUnpaused, int(viaOf(hello.Probe)))
	if ep.state == stateAccepting && hello.Proven != frag.ProvenAll {
		return ep // the peer may need the answer to get there
	}
	if ep.state == stateAccepting {
		if ep = m.lastWord(ep, h, hello); ep == nil {
			return nil
		}
	}
	m.noteTakes(ep, hello)
	if hs := ep.hs; hs != nil {
		hs.OnProvenHello(hello)
		m.establish(ep)
	}
	if ep.hs != nil {
		m.hurry(ep)
	}
	return ep
}

// lastWord has what a half-open endpoint's peer says last count: a Hello before may have been
// another's, in its name. It returns the endpoint to go on with, nil for none.
func (m *Module) lastWord(ep *Endpoint, h *frag.Header, hello *frag.Hello) *Endpoint {
	if _, ok := m.welcomeAgain(ep, hello); !ok {
		return nil
	}
	m.bind(ep, h, hello)
	return m.validate(ep)
}

// matchesPeer says whether a packet of a handshake that carries the endpoint's tag is of that end
// of the peer which this endpoint deals with, and does what follows if it is not.
func (m *Module) matchesPeer(ep *Endpoint, h *frag.Header, hello *frag.Hello) bool {
	f := meet.Tagged{
		State: ep.state, Settled: ep.hs == nil, Same: ep.id.Peer.Tag == hello.Tag,
		Lower: m.incarnation <= ep.id.Peer.Incarnation,
	}
	if hs := ep.hs; hs != nil {
		f.Bound, f.Free = hs.Bound(), m.peers.Free(ep, hs.Offered(), hello.Tag)
		f.Stale = ep.maybeStale()
	}
	switch f.Claim() {
	case meet.ClaimTaken:
		return true
	case meet.ClaimBinds:
		m.bind(ep, h, hello)
		ep.hs.BindAnew()
		return true
	case meet.ClaimRestarts:
		if f.Bound {
			m.restart(ep)
		} else {
			m.contest(ep, 0)
		}
	case meet.ClaimContested:
		m.contest(ep, meet.HelloIntervalMin)
	case meet.ClaimIgnored:
	}
	return false
}

// contest has an endpoint that deals with no end of the peer begin again under a new tag, unless
// the end that was told the present one proves itself first: that takes it a round trip, and a
// while longer where one side has to wait for the other.
func (m *Module) contest(ep *Endpoint, longer time.Duration) {
	if ep.hs.Contested() {
		return // it is waiting
	}
	after, waits := ep.hs.Contest(m.nowUnpaused, longer)
	if !waits {
		m.restart(ep)
		return
	}
	m.setTimer(ep, after)
}

// maybeStale says whether the end of the peer that a connecting endpoint deals with may be gone, or
// have begun again under another tag: it was silent for more than a round of Hellos. Then the
// endpoint asks without a tag too. If that end is there still, and knows this one, it answers; if
// another one does, it is not.
func (ep *Endpoint) maybeStale() bool {
	return ep.state == stateConnecting && ep.hs.MaybeStale(ep.life.Quiet(ep.m.nowUnpaused))
}

// restart makes an endpoint begin its handshake again under a new tag. The old one was told to an
// end of the peer that has not proven itself, and now another one has, or that is not there any
// more.
func (m *Module) restart(ep *Endpoint) {
	if ep.hs.Bound() {
		m.peers.ForgetPeer(ep)
		ep.id.Peer.Tag = 0
	}
	ep.counting.takes, ep.counting.missed = false, false // what that end has said
	m.peers.Rename(ep, m.random())
	ep.hs = ep.hs.Again(m.nowUnpaused, m.newNonces())
	m.setTimer(ep, 0)
}

// validate accepts that a half-open endpoint's peer is where it says: it has returned the random
// tag that was sent there. It returns the endpoint to go on with: one that is connecting to the
// same peer, and that nobody there knows, takes the half-open one's place. It returns nil if what
// proves the peer comes late, from a life that is over.
func (m *Module) validate(ep *Endpoint) *Endpoint {
	old := m.peers.ByAddr(ep.id.Addr)
	p := meet.Proof{Known: old != nil && old != ep}
	if p.Known {
		p.SameLife, p.State = old.id.Peer.Incarnation == ep.id.Peer.Incarnation, old.state
		p.Newer = old.id.Born > ep.id.Born
		if hs := old.hs; hs != nil {
			p.Named, p.Told = hs.Wanted(), hs.Told()
		}
	}
	outcome := p.Outcome()
	if outcome == meet.OutcomeLate {
		m.end(ep, EventFailed, ErrPeerRestarted)
		return nil
	}
	m.peers.RemoveHalfOpen(ep.id.Addr)
	ep.state = stateConnecting
	switch outcome {
	case meet.OutcomeAlone, meet.OutcomeLate:
	case meet.OutcomeUndecided:
		m.peers.StandBehind(ep, old)
	case meet.OutcomeRestarted:
		m.end(old, EventFailed, ErrPeerRestarted)
	case meet.OutcomeSupersedes:
		m.supersede(old)
	case meet.OutcomeMerges:
		m.mergeInto(old, ep)
		ep = old
	}
	if outcome != meet.OutcomeUndecided {
		m.peers.LeadTo(ep)
	}
	return ep
}

// whyNot is the reason for a handshake that was not finished in its time. It names the channels
// that have answered and those that have not: something on the way may let one port pass alone.
func (m *Module) whyNot(ep *Endpoint) error {
	hs := ep.hs
	if code, ok := hs.Later(); ok {
		return &RefusedError{Code: code, Later: true}
	}
	command := m.formatName([]byte(ep.id.Addr)) + " (command channel)"
	data := m.formatName([]byte(hs.DataName())) + " (data channel)"
	const both = "both ports must pass"
	byCommand, byData := hs.HeardBy(frag.ProbeCommand), hs.HeardBy(frag.ProbeData)
	switch {
	case byCommand && byData:
		return fmt.Errorf("%w: %s and %s answer, but the handshake was not finished within %v",
			ErrUnreachable, command, data, m.cfg.HandshakeTimeout)
	case byCommand:
		return fmt.Errorf("%w: it answers by %s but not by %s: %s", ErrUnreachable, command, data, both)
	case byData:
		return fmt.Errorf("%w: it answers by %s but not by %s: %s", ErrUnreachable, data, command, both)
	}
	return fmt.Errorf("%w: neither %s nor %s answers", ErrUnreachable, command, data)
}

// supersede has a connection asked whether its peer's end is there still: the peer has closed it,
// or lost it, for it has connected anew. What it sent there may still arrive.
func (m *Module) supersede(old *Endpoint) {
	old.superseded = true
	old.life.ForgetThere()
	if !old.watches() { // which has been asking for the same
		old.life.AskAnew()
	}
	m.setTimer(old, m.supersededTimeout(old))
}

// mergeInto makes half, which nobody knows of, vanish, and ep be what it was to the peer. What the
// handshake has settled is taken over whole. The caller's queues stay with ep.
func (m *Module) mergeInto(ep, half *Endpoint) {
	m.clearTimer(ep)
	m.leaveAddr(ep.cmdAddr)
	m.leaveAddr(ep.dataAddr)
	m.peers.Merge(ep, half)
	ep.room = half.room
	ep.numbers = half.numbers // none may come again under that tag
	half.hs.TakeGoal(ep.hs)
	ep.hs = half.hs
	ep.route = half.route
	ep.snd, ep.rcv, ep.asm = half.snd, half.rcv, half.asm
	ep.renumberFlushes()
	ep.link, ep.life = half.link, half.life
	half.state, half.hs = stateEnded, nil
}
