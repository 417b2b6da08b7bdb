package btl

import "gobtl/frag"

// Which end of a peer an endpoint deals with: peers may connect to each other at the same time,
// give up, connect again, and restart, while their Hellos overtake each other.

// onFirstHello finds or makes the endpoint for a Hello that does not carry its tag: nothing in it
// is proven. It is the half-open endpoint that an earlier one of its kind made, or the endpoint
// that is itself connecting to the Hello's sender (simultaneous opening), unless another end of the
// peer may use that one's tag already, or a new one.
func (m *Module) onFirstHello(h *frag.Header, hello *frag.Hello) *Endpoint {
	peer := peerTag{hello.Incarnation, hello.Tag}
	if ep := m.byTag[peer]; ep != nil {
		return ep
	}
	ep := m.byAddr[string(hello.CommandName)]
	if ep != nil && ep.state == stateConnecting && ep.peer.incarnation == hello.Incarnation &&
		!ep.hs.bound && (ep.hs.offered == 0 || ep.hs.offered == hello.Tag) {
		return ep
	}
	if m.halfOpen >= m.cfg.HalfOpenMax || m.draining || m.outbox.full(m.cfg.PeersMax) {
		return nil
	}
	ep, err := m.newEndpoint(hello.CommandName, hello.DataName, int(hello.CommandBytes),
		int(hello.MTUBytes))
	if err != nil {
		m.reject(hello.CommandName, hello.Tag, frag.RejectFull, frag.Version)
		return nil
	}
	ep.state = stateAccepting
	m.halfOpen++
	m.bind(ep, h, hello)
	if m.byAddr[ep.addrKey] == nil {
		m.byAddr[ep.addrKey] = ep
	}
	m.setTimer(ep, m.cfg.HandshakeTimeout)
	return ep
}

// onProvenHello processes a Hello that carries the endpoint's tag, which only the peer can have. It
// returns the endpoint to answer as, nil for none.
func (m *Module) onProvenHello(ep *Endpoint, h *frag.Header, hello *frag.Hello) *Endpoint {
	if !m.matchesPeer(ep, h, hello) {
		return nil
	}
	m.heard(ep)
	if ep.state == stateAccepting {
		if ep = m.validate(ep); ep == nil {
			return nil
		}
	}
	if hs := ep.hs; hs != nil {
		hs.confirmed = true
		hs.proven |= hello.Proven
		m.establish(ep)
	}
	return ep
}

// matchesPeer says whether a packet of a handshake that carries the endpoint's tag is of that end
// of the peer which this endpoint deals with. An endpoint that deals with none yet takes it. It
// deals with one only: two that both think themselves connected to it would mix their packets.
func (m *Module) matchesPeer(ep *Endpoint, h *frag.Header, hello *frag.Hello) bool {
	hs := ep.hs
	switch {
	case hs == nil || hs.bound && ep.state != stateConnecting:
		return ep.peerTag == hello.Tag
	case hs.bound && ep.peerTag == hello.Tag:
		return true
	case hs.offered == 0 || hs.offered == hello.Tag:
		// An end that it was bound to before was told no tag, and cannot be connected.
		m.bind(ep, h, hello)
		return true
	case hs.bound:
		if m.maybeStale(ep) {
			m.restart(ep)
		}
	case m.incarnation <= ep.peer.incarnation:
		m.restart(ep)
	default:
		hs.contested = true // the peer may be in the same position: not both at once
		m.setTimer(ep, helloIntervalMin)
	}
	return false
}

// maybeStale says whether the end of the peer that a connecting endpoint deals with may be gone, or
// have begun again under another tag: it was silent for more than a round of Hellos. Then the
// endpoint asks without a tag too. If that end is there still, and knows this one, it answers; if
// another one does, it is not.
func (m *Module) maybeStale(ep *Endpoint) bool {
	return ep.state == stateConnecting && ep.hs.bound && ep.hs.expected != 0 &&
		m.nowUnpaused.Sub(ep.heardAt) > 2*helloIntervalMin
}

// restart makes an endpoint begin its handshake again under a new tag. The old one was told to an
// end of the peer that has not proven itself, and now another one has, or that is not there any
// more.
func (m *Module) restart(ep *Endpoint) {
	if ep.hs.bound {
		m.forgetPeer(ep)
		ep.peer.tag, ep.peerTag = 0, 0
	}
	ep.tag = m.slots.Rename(ep.tag, m.random())
	until, expected := ep.hs.until, ep.hs.expected
	ep.hs = newHandshake()
	ep.hs.until, ep.hs.expected = until, expected
	m.setTimer(ep, 0)
}

// validate accepts that a half-open endpoint's peer is where it says: it has returned the random
// tag that was sent there. It returns the endpoint to go on with: one that is connecting to the
// same peer, and that nobody there knows, takes the half-open one's place. It returns nil if what
// proves the peer comes late, from a life that is over.
func (m *Module) validate(ep *Endpoint) *Endpoint {
	old := m.byAddr[ep.addrKey]
	if old != nil && old.peer.incarnation != ep.peer.incarnation && old.state == stateConnected &&
		old.born > ep.born {
		m.end(ep, EventFailed, ErrPeerRestarted)
		return nil
	}
	m.halfOpen--
	ep.state = stateConnecting
	switch {
	case old == nil || old == ep:
		m.byAddr[ep.addrKey] = ep
	case old.peer.incarnation != ep.peer.incarnation:
		m.validateOther(ep, old)
	default:
		ep = m.validateAnother(ep, old)
		m.byAddr[ep.addrKey] = ep
	}
	ep.hs.until = m.nowUnpaused.Add(m.cfg.HandshakeTimeout)
	m.setTimer(ep, helloIntervalMin) // then it asks for itself what is not proven
	return ep
}

// validateOther decides about the endpoint of another life of the peer: it is over. But if the
// caller is connecting to that life by its name since ep was made, that may be the later one; who
// connects will tell. (A name that was known before ep had its tag is of a life before the one that
// has returned the tag.)
func (m *Module) validateOther(ep, old *Endpoint) {
	if old.state == stateConnecting && old.hs.expected != 0 && old.born > ep.born {
		for d := old.displaced; d != ep; d = d.displaced {
			if d == nil { // not known to it, as one is that was there before
				ep.displaced, old.displaced = old.displaced, ep
				break
			}
		}
		return
	}
	m.end(old, EventFailed, ErrPeerRestarted)
	m.byAddr[ep.addrKey] = ep
}

// validateAnother decides about the endpoint of another end of the same life of the peer, and
// returns the one to go on with.
func (m *Module) validateAnother(ep, old *Endpoint) *Endpoint {
	switch {
	case old.state == stateConnected:
		// The peer has closed the old connection or lost it. What it sent there may still arrive.
		old.superseded, old.asked, old.answered = true, false, false
		if !old.watches() { // which has been asking for the same
			old.probes = 0
		}
		m.setTimer(old, m.supersededTimeout(old))
	case old.state == stateConnecting && !old.hs.bound && old.hs.offered == 0:
		m.mergeInto(old, ep)
		return old
	}
	return ep
}

// mergeInto makes half, which nobody knows of, vanish, and ep be what it was to the peer.
func (m *Module) mergeInto(ep, half *Endpoint) {
	m.clearTimer(ep)
	m.leaveAddr(ep.cmdAddr)
	m.leaveAddr(ep.dataAddr)
	m.vacate(ep)
	m.slots.Replace(half.tag, ep)
	if m.byTag[half.peer] == half {
		m.byTag[half.peer] = ep
	}
	ep.slot, ep.tag, ep.room = half.slot, half.tag, half.room
	half.hs.expected = ep.hs.expected
	ep.peer, ep.peerTag, ep.hs, ep.born = half.peer, half.peerTag, half.hs, half.born
	ep.route = half.route
	ep.snd, ep.rcv, ep.asm = half.snd, half.rcv, half.asm
	ep.counted, ep.selective = half.counted, half.selective
	ep.heardAt, ep.silentResends, ep.probes = half.heardAt, 0, 0
	half.state, half.hs = stateEnded, nil
}
