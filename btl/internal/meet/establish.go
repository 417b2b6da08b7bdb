package meet

import (
	"time"

	"gobtl/frag"
)

// OnPacket decides about a packet with the tag of an endpoint that is not connected, or does not
// know that the peer is: the peer sends only Hellos until it knows that both channels work. It
// returns the packet's endpoint, the zero value to drop the packet: the peer's knowledge proves
// nothing of the addresses to which this side sends.
//
// A half-open endpoint drops the packet, unless the connection is counted: there no impostor can
// send. The Hello that made the endpoint may be forged. If a packet confirmed the endpoint, it
// would keep the forged sequence numbers, and each side would drop the other's packets. The peer's
// genuine Hello leaves before the packet, and is repeated. A peer that was tricked into believing
// in a confirmation stops repeating its Hello: so this side probes the peer.
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
			// The answer returns the nonce, and the peer's genuine parameters.
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

// establish makes an endpoint connected once both channels are known to work: the passive side
// waits until the peer knows that too, for the peer's handshake may still fail.
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
		s.sayHello(ep) // before all else, for a half-open endpoint drops what comes before it
	case e.Counted:
		s.host.SetTimer(ep, 0)
	}
}

// matchesPeer says whether a handshake packet with this endpoint's tag is from the peer's endpoint
// that it is bound to, and handles the mismatch if not.
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

// contest restarts an endpoint under a new tag, unless the peer's endpoint that was told the
// present tag proves itself first. That proof takes a round trip, plus longer where one side has to
// wait for the other.
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

// maybeStale says whether the peer's endpoint that a connecting endpoint is bound to may be gone,
// or restarted under another tag: it was silent for over a round of Hellos. Then this side also
// sends Hellos without a tag. The old peer endpoint answers them if it still exists; an answer from
// another one shows that it does not.
func (s *Handshakes[E]) maybeStale(ep E) bool {
	e := s.peers.end(ep)
	return e.state == Connecting && e.hs.MaybeStale(s.host.Quiet(ep))
}

// restart makes an endpoint begin its handshake again under a new tag. The old tag was told to a
// peer endpoint that never proved itself; now another one has, or the first is gone.
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

// validate marks a half-open endpoint's peer address as proven: the peer has returned the random
// tag sent there. It returns the endpoint to go on with: one that is connecting to the same peer,
// and unknown to it, replaces the half-open one. It returns the zero value for a late proof, from
// an old incarnation.
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

// merge removes half, which no caller knows, and makes ep take its place towards the peer. ep takes
// over all of half's handshake, but for the goal, which is that of ep's caller.
func (s *Handshakes[E]) merge(ep, half E) {
	s.peers.Merge(ep, half)
	e, h := s.peers.end(ep), s.peers.end(half)
	h.hs.TakeGoal(e.hs)
	e.hs, e.Agreement = h.hs, h.Agreement
	s.host.Merge(ep, half)
	h.state, h.hs = Ended, nil
}

// OnTimer is called when the timer of an endpoint expires whose handshake is under way, unless the
// endpoint is connected over a counted link: the next round of Hellos, or the end.
func (s *Handshakes[E]) OnTimer(ep E) {
	e := s.peers.end(ep)
	hs := e.hs
	if hs.ContestLost() {
		s.restart(ep)
		return // to here at once
	}
	if hs.Left(s.host.Now()) <= 0 {
		if e.state == Connected { // it works; only the confirmation never came
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
	s.sayHello(ep)
}

// ConfirmAgain repeats the Hellos that say that all is proven, to a peer that may be half open. It
// returns the time until they are due again.
func (s *Handshakes[E]) ConfirmAgain(ep E) time.Duration {
	hs := s.peers.end(ep).hs
	hs.ConfirmAgain(s.random())
	s.SendRound(ep)
	return hs.NextRound()
}
