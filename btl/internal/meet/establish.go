package meet

import (
	"time"

	"gobtl/frag"
)

// OnPacket handles a data packet for an endpoint whose handshake is not complete. A data packet
// shows that the command channel and the data channel work, because a peer sends only Hellos until
// it knows that both of these channels work. A data packet does not prove that the peer receives at
// the addresses to which this side sends. OnPacket returns the endpoint that must process the
// packet, or the zero value if the packet must be dropped.
//
// A half-open endpoint drops data packets, because the Hello for which the endpoint was made is
// possibly forged. If an endpoint used wrong sequence numbers from a forged Hello, the two sides
// would drop each other's packets. When a half-open endpoint drops a data packet, this side probes
// the peer, because a forged packet can have made the peer stop repeating its Hello. Over a
// reliable fabric, a half-open endpoint accepts data packets, because no packet can be forged.
func (s *Handshakes[E]) OnPacket(ep E) (goesOn E) {
	var none E
	e := s.peers.end(ep)
	switch {
	case e.State == Lingering:
		return ep
	case !e.Handshake.Bound:
		s.host.Early(ep)
		return none
	case e.State == Accepting && !e.Counted:
		if e.Handshake.MayAsk(*s.now) {
			s.AskHello(ep, frag.ProbeCommand)
		}
		return none
	case e.State == Accepting:
		if ep = s.validate(ep); ep == none {
			return none
		}
		e = s.peers.end(ep)
	}
	e.Handshake.confirmed, e.Handshake.ready = true, true
	if e.Handshake.Proven != frag.ProvenAll {
		s.host.Early(ep)
		s.hurry(ep)
		return none
	}
	s.establish(ep)
	return ep
}

// establish marks an endpoint as connected if answers of the peer have arrived on the command
// channel and on the data channel. An endpoint that was made for a Hello of the peer becomes
// connected only after a packet of the peer has shown that the peer knows that both channels work.
// Until the peer knows that both channels work, its handshake can still fail.
func (s *Handshakes[E]) establish(ep E) {
	e := s.peers.end(ep)
	hs := e.Handshake
	if hs.Proven != frag.ProvenAll || !hs.wanted && !hs.ready {
		return
	}
	news := e.State != Connected
	if news {
		e.State = Connected
		s.host.Connected(ep, s.peers.EarlierLives(ep))
	}
	switch {
	case hs.confirmed:
		e.Handshake = nil
		s.host.Settled(ep, true, hs.unheard)
	case news && !e.Counted:
		hs.BeginConfirm(s.random())
		s.sayHello(ep) // sent first, because a half-open endpoint drops packets before this Hello
	case e.Counted:
		s.host.SetTimer(ep, 0)
	}
}

// matchesPeer reports whether a handshake packet comes from the peer's endpoint to which the local
// endpoint is bound. The handshake packet must contain the connection tag of the local endpoint. If
// the local endpoint is not bound yet, matchesPeer can bind the local endpoint to the packet's
// sender. If the sender is not the peer's endpoint to which the local endpoint is bound,
// matchesPeer either ignores the packet, or begins a new handshake immediately or after a wait.
func (s *Handshakes[E]) matchesPeer(ep E, h *frag.Header, hello *frag.Hello) bool {
	e := s.peers.end(ep)
	f := Tagged{
		State: e.State, Settled: e.Handshake == nil, Same: e.Peer.Tag == hello.Tag,
		Lower: s.says.Incarnation <= e.Peer.Incarnation,
	}
	if hs := e.Handshake; hs != nil {
		f.Bound, f.Free = hs.Bound, s.peers.Free(ep, hs.Offered, hello.Tag)
		f.Stale = s.maybeStale(ep)
	}
	switch f.Claim() {
	case ClaimTaken:
		return true
	case ClaimBinds:
		s.Bind(ep, h, hello)
		e.Handshake.Bound, e.Handshake.Proven = true, 0
		return true
	case ClaimRestarts:
		if f.Bound {
			s.restart(ep)
		} else {
			s.contest(ep, 0)
		}
	case ClaimContested:
		s.contest(ep, HelloIntervalMin)
	case ClaimIgnored:
	}
	return false
}

// The method "contest" begins an endpoint's handshake again under a new connection tag, unless the
// peer's endpoint to which the present tag was sent returns this tag within a round trip. The
// argument "longer" of the method "contest" is added to the round trip within which the tag must be
// returned.
func (s *Handshakes[E]) contest(ep E, longer time.Duration) {
	hs := s.peers.end(ep).Handshake
	if hs.contested {
		return // it is waiting
	}
	after, waits := hs.Contest(*s.now, longer)
	if !waits {
		s.restart(ep)
		return
	}
	s.host.SetTimer(ep, after)
}

// maybeStale reports whether the peer was silent for more than a round of Hellos, so that the
// peer's endpoint possibly no longer exists or has a new connection tag. While maybeStale returns
// true, this side sends Hellos both with and without the peer's connection tag, because any
// endpoint of the peer can answer a Hello without a tag.
func (s *Handshakes[E]) maybeStale(ep E) bool {
	e := s.peers.end(ep)
	return e.State == Connecting && e.Handshake.Bound && e.Handshake.wanted &&
		s.host.Quiet(ep) > 2*HelloIntervalMin
}

// restart makes an endpoint begin its handshake again under a new connection tag.
func (s *Handshakes[E]) restart(ep E) {
	e := s.peers.end(ep)
	if e.Handshake.Bound {
		s.peers.ForgetPeer(ep)
		e.Peer.Tag = 0
	}
	s.host.Restarted(ep)
	s.peers.Rename(ep, s.random())
	e.Handshake = e.Handshake.Again(*s.now, s.nonces())
	s.host.SetTimer(ep, 0)
}

// validate records that the address of a half-open endpoint's peer is validated, because the peer
// has returned a random connection tag that was sent to this address. validate returns the endpoint
// that continues the handshake. If the tag comes from an old incarnation of the peer, validate
// returns the zero value.
func (s *Handshakes[E]) validate(ep E) (goesOn E) {
	var none E
	e := s.peers.end(ep)
	old := s.peers.ByAddr(e.Addr)
	p := Proof{Known: old != none && old != ep}
	if p.Known {
		o := s.peers.end(old)
		p.SameLife, p.State = o.Peer.Incarnation == e.Peer.Incarnation, o.State
		p.Newer = o.Born > e.Born
		if hs := o.Handshake; hs != nil {
			p.Named, p.Told = hs.wanted, hs.Bound || hs.Offered != 0
		}
	}
	outcome := p.Outcome()
	if outcome == OutcomeLate {
		s.host.End(ep, WhyRestarted, frag.Reject{})
		return none
	}
	s.peers.endHalf(ep, e.Addr)
	e.State = Connecting
	switch outcome {
	case OutcomeContinues, OutcomeLate:
	case OutcomeUndecided:
		s.peers.StandBehind(ep, old)
	case OutcomeRestarted:
		s.host.End(old, WhyRestarted, frag.Reject{})
	case OutcomeSupersedes:
		s.host.Supersede(old)
	case OutcomeMerges:
		s.merge(old, ep)
		ep = old
	}
	if outcome != OutcomeUndecided {
		s.peers.LeadTo(ep)
	}
	return ep
}

// merge replaces the half-open endpoint "half", which was not reported to the application, by the
// endpoint "ep". The endpoint "ep" continues the handshake of the half-open endpoint, but keeps its
// own goal, which is the connection that the application has requested.
func (s *Handshakes[E]) merge(ep, half E) {
	s.peers.Merge(ep, half)
	e, h := s.peers.end(ep), s.peers.end(half)
	h.Handshake.goal = e.Handshake.goal
	e.Handshake, e.Agreement = h.Handshake, h.Agreement
	s.host.Merge(ep, half)
	h.State, h.Handshake = Ended, nil
}

// OnTimer handles the expired timer of an endpoint with a handshake in progress. OnTimer sends the
// next round of Hellos, or ends the handshake if its time limit has passed. The caller must not
// call OnTimer for connected endpoints over a reliable fabric.
func (s *Handshakes[E]) OnTimer(ep E) {
	e := s.peers.end(ep)
	hs := e.Handshake
	if hs.contested && !hs.Bound {
		s.restart(ep)
		return // OnTimer is called again at once
	}
	if hs.Left(*s.now) <= 0 {
		if e.State == Connected { // both channels work; only the peer's confirmation is missing
			e.Handshake = nil
			s.host.Settled(ep, false, false)
			return
		}
		s.host.End(ep, WhyUnanswered, frag.Reject{})
		return
	}
	if e.State == Connected {
		hs.Nonces[frag.ProbeCommand] = s.random()
	}
	if hs.Kept {
		s.askAnew(ep)
	}
	s.sayHello(ep)
}

// ConfirmAgain repeats the Hellos with which this side reports that the command channel and the
// data channel work. ConfirmAgain returns the time until it must be called again.
func (s *Handshakes[E]) ConfirmAgain(ep E) time.Duration {
	hs := s.peers.end(ep).Handshake
	hs.Nonces[frag.ProbeCommand] = s.random()
	s.SendRound(ep)
	return hs.NextRound()
}
