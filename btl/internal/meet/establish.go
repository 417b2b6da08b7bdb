package meet

import (
	"time"

	"gobtl/frag"
)

// OnPacket handles a data packet with the tag of an endpoint whose handshake is not complete. A
// data packet shows that both channels work, because a peer sends only Hellos until it knows that
// both channels work. A data packet does not prove the addresses to which this side sends. OnPacket
// returns the endpoint that must handle the packet, or the zero value if the packet must be
// dropped.
//
// A half-open endpoint drops data packets, because the Hello for which the endpoint was
// made may be forged. An endpoint that accepts data after a forged Hello would use forged
// sequence numbers, and then each side would drop the packets that it receives. The peer repeats
// its genuine Hello until this side answers. This side probes the peer, which may have stopped
// repeating its Hello because of a forged packet. Over a reliable fabric nobody can forge packets,
// so OnPacket accepts the packet.
func (s *Handshakes[E]) OnPacket(ep E) (goesOn E) {
	var none E
	e := s.peers.end(ep)
	switch {
	case e.state == Lingering:
		return ep
	case !e.hs.Bound():
		s.host.Early(ep)
		return none
	case e.state == Accepting && !e.Counted:
		if e.hs.MayAsk(s.host.Now()) {
			s.AskHello(ep, frag.ProbeCommand)
		}
		return none
	case e.state == Accepting:
		if ep = s.validate(ep); ep == none {
			return none
		}
		e = s.peers.end(ep)
	}
	e.hs.OnPacket()
	if e.hs.Proven() != frag.ProvenAll {
		s.host.Early(ep)
		s.hurry(ep)
		return none
	}
	s.establish(ep)
	return ep
}

// establish makes an endpoint connected after both channels are known to work. An endpoint that was
// made for a peer's Hello also waits until the peer knows that both channels work, because the
// peer's handshake may fail.
func (s *Handshakes[E]) establish(ep E) {
	e := s.peers.end(ep)
	hs := e.hs
	if !hs.Works() {
		return
	}
	news := e.state != Connected
	if news {
		e.state = Connected
		s.host.Connected(ep, s.peers.EarlierLives(ep))
	}
	switch {
	case hs.Confirmed():
		e.hs = nil
		s.host.Settled(ep, true, hs.Unheard())
	case news && !e.Counted:
		hs.BeginConfirm(s.random())
		s.sayHello(ep) // first of all, because a half-open endpoint drops what arrives before it
	case e.Counted:
		s.host.SetTimer(ep, 0)
	}
}

// matchesPeer reports whether a handshake packet with this endpoint's tag comes from the peer's
// endpoint to which this endpoint is bound. If another endpoint of the peer has sent the
// handshake packet, matchesPeer starts a contest or a new handshake, if necessary.
func (s *Handshakes[E]) matchesPeer(ep E, h *frag.Header, hello *frag.Hello) bool {
	e := s.peers.end(ep)
	f := Tagged{
		State: e.state, Settled: e.hs == nil, Same: e.Peer.Tag == hello.Tag,
		Lower: s.says.Incarnation <= e.Peer.Incarnation,
	}
	if hs := e.hs; hs != nil {
		f.Bound, f.Free = hs.Bound(), s.peers.Free(ep, hs.Offered(), hello.Tag)
		f.Stale = s.maybeStale(ep)
	}
	switch f.Claim() {
	case ClaimTaken:
		return true
	case ClaimBinds:
		s.Bind(ep, h, hello)
		e.hs.BindAnew()
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

// contest restarts an endpoint's handshake under a new tag, unless the peer's endpoint to which the
// present tag was sent proves its address within a round trip. The argument longer is added to that
// time.
func (s *Handshakes[E]) contest(ep E, longer time.Duration) {
	hs := s.peers.end(ep).hs
	if hs.Contested() {
		return // it is waiting
	}
	after, waits := hs.Contest(s.host.Now(), longer)
	if !waits {
		s.restart(ep)
		return
	}
	s.host.SetTimer(ep, after)
}

// maybeStale reports whether the peer's endpoint may be gone or may have another tag,
// because the peer was silent for more than a round of Hellos. While maybeStale is true,
// this side sends Hellos without a tag, whose answers show whether the peer's endpoint
// still exists.
func (s *Handshakes[E]) maybeStale(ep E) bool {
	e := s.peers.end(ep)
	return e.state == Connecting && e.hs.MaybeStale(s.host.Quiet(ep))
}

// restart makes an endpoint begin its handshake again under a new tag.
func (s *Handshakes[E]) restart(ep E) {
	e := s.peers.end(ep)
	if e.hs.Bound() {
		s.peers.ForgetPeer(ep)
		e.Peer.Tag = 0
	}
	s.host.Restarted(ep)
	s.peers.Rename(ep, s.random())
	e.hs = e.hs.Again(s.host.Now(), s.nonces())
	s.host.SetTimer(ep, 0)
}

// validate records that the peer's address of a half-open endpoint is proven, because the peer
// has returned a random tag that was sent to this address. validate returns the endpoint that
// continues the handshake. validate returns the zero value for a late proof, which an old
// incarnation of the peer has sent.
func (s *Handshakes[E]) validate(ep E) (goesOn E) {
	var none E
	e := s.peers.end(ep)
	old := s.peers.ByAddr(e.Addr)
	p := Proof{Known: old != none && old != ep}
	if p.Known {
		o := s.peers.end(old)
		p.SameLife, p.State = o.Peer.Incarnation == e.Peer.Incarnation, o.state
		p.Newer = o.Born > e.Born
		if hs := o.hs; hs != nil {
			p.Named, p.Told = hs.Wanted(), hs.Told()
		}
	}
	outcome := p.Outcome()
	if outcome == OutcomeLate {
		s.host.End(ep, WhyRestarted, frag.Reject{})
		return none
	}
	s.peers.RemoveHalfOpen(e.Addr)
	e.state = Connecting
	switch outcome {
	case OutcomeAlone, OutcomeLate:
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

// merge removes the half-open endpoint half, which was not reported to the application, and makes
// ep replace half for the peer. The endpoint ep continues the handshake of half, but keeps its own
// goal (the connection that the application has asked for).
func (s *Handshakes[E]) merge(ep, half E) {
	s.peers.Merge(ep, half)
	e, h := s.peers.end(ep), s.peers.end(half)
	h.hs.TakeGoal(e.hs)
	e.hs, e.Agreement = h.hs, h.Agreement
	s.host.Merge(ep, half)
	h.state, h.hs = Ended, nil
}

// OnTimer handles the timer of an endpoint with a handshake in progress, and sends the next round
// of Hellos or ends the handshake. OnTimer must not be called for endpoints that are connected over
// a reliable fabric.
func (s *Handshakes[E]) OnTimer(ep E) {
	e := s.peers.end(ep)
	hs := e.hs
	if hs.ContestLost() {
		s.restart(ep)
		return // OnTimer is called again at once
	}
	if hs.Left(s.host.Now()) <= 0 {
		if e.state == Connected { // both channels work; only the confirmation is missing
			e.hs = nil
			s.host.Settled(ep, false, false)
			return
		}
		s.host.End(ep, WhyUnanswered, frag.Reject{})
		return
	}
	if e.state == Connected {
		hs.ConfirmAgain(s.random())
	}
	if hs.Kept() {
		s.askAnew(ep)
	}
	s.sayHello(ep)
}

// ConfirmAgain repeats the Hellos that tell the peer, which may be half open, that both channels
// work. ConfirmAgain returns the time until the next repetition of the Hellos.
func (s *Handshakes[E]) ConfirmAgain(ep E) time.Duration {
	hs := s.peers.end(ep).hs
	hs.ConfirmAgain(s.random())
	s.SendRound(ep)
	return hs.NextRound()
}
