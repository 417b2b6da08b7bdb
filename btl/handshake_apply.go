package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/frag"
)

// This file applies the decisions of btl/internal/meet to endpoints and tables.

// onProvenHello processes a Hello with the endpoint's tag, which only the peer can know. It returns
// the endpoint that answers, nil for no answer.
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

// lastWord lets the latest Hello of a half-open endpoint's peer override earlier ones, which may be
// forged. It returns the endpoint to go on with, nil for none.
func (m *Module) lastWord(ep *Endpoint, h *frag.Header, hello *frag.Hello) *Endpoint {
	if _, ok := m.welcomeAgain(ep, hello); !ok {
		return nil
	}
	m.bind(ep, h, hello)
	return m.validate(ep)
}

// matchesPeer says whether a handshake packet with this endpoint's tag is from the peer's endpoint
// that it is bound to, and handles the mismatch if not.
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

// contest restarts an endpoint under a new tag, unless the peer's endpoint that was told the
// present tag proves itself first. That proof takes a round trip, plus longer where one side has to
// wait for the other.
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

// maybeStale says whether the peer's endpoint that a connecting endpoint is bound to may be gone,
// or restarted under another tag: it was silent for over a round of Hellos. Then this side also
// sends Hellos without a tag. The old peer endpoint answers them if it still exists; an answer from
// another one shows that it does not.
func (ep *Endpoint) maybeStale() bool {
	return ep.state == stateConnecting && ep.hs.MaybeStale(ep.life.Quiet(ep.m.nowUnpaused))
}

// restart makes an endpoint begin its handshake again under a new tag. The old tag was told to a
// peer endpoint that never proved itself; now another one has, or the first is gone.
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

// validate marks a half-open endpoint's peer address as proven: the peer has returned the random
// tag sent there. It returns the endpoint to go on with: one that is connecting to the same peer,
// and unknown to it, replaces the half-open one. It returns nil for a late proof, from an old
// incarnation.
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

// whyNot is the error for a handshake that timed out. It names the channels that have answered and
// those that have not: a firewall on the path may pass only one of the ports.
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

// supersede starts probes of a connection's peer endpoint: the peer has connected anew, so it has
// closed or lost this connection. Packets that it sent on the old one may still arrive.
func (m *Module) supersede(old *Endpoint) {
	old.superseded = true
	old.life.ForgetThere()
	if !old.watches() { // which has been asking for the same
		old.life.AskAnew()
	}
	m.setTimer(old, m.supersededTimeout(old))
}

// mergeInto removes half, which no caller knows, and makes ep take its place towards the peer. ep
// takes over all of half's handshake state, and keeps its own queues of the caller.
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
