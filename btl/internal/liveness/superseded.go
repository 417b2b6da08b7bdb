package liveness

import "time"

// Supersede starts probes for the peer's end of a connection, because the peer has connected
// anew, and has probably closed or lost the old connection. Packets that the peer sent on the old
// connection may still arrive.
func (s *Watches[E]) Supersede(old E) {
	w, v := s.watchOf(old), s.host.View(old)
	w.superseded = true
	w.ForgetThere()
	if !v.Counted { // else it has been asked for the same
		w.AskAnew()
	}
	s.Set(old, s.supersededTimeout(w, &v))
}

// onSuperseded probes a peer that has connected anew, to find out if the peer's end of the old
// connection still exists. Hellos can overtake each other, so the seemingly new connection may
// be an older one that is closed already. If the peer does not answer for PeerTimeout, the old
// endpoint ends.
func (s *Watches[E]) onSuperseded(ep E, w *Watch, v *View) {
	now := s.host.Now()
	if w.IsThere() {
		w.superseded = false
		w.ForgetThere()
		s.host.LeadTo(ep)
		s.Resume(ep)
		return
	}
	verdict := w.Verdict(now, &s.Rules, Sign, 0)
	if !s.askAgain(ep, w, &verdict) {
		s.host.End(ep, s.whySuperseded(ep, &verdict), verdict)
		return
	}
	s.askSuccessor(ep)
	w.AskedThere(now)
	s.host.Ask(ep, 0)
	again := min(s.closeTimeout, s.Rules.PeerTimeout) / (TriesMin + 1)
	if v.Counted {
		again = verdict.Next(again)
	}
	s.Set(ep, max(again, time.Millisecond))
}

// supersededTimeout is the delay of the first probe of a superseded peer. The delay is short if
// the peer owes an answer, because a counted link has no other timer that would detect a dead
// peer.
func (s *Watches[E]) supersededTimeout(w *Watch, v *View) time.Duration {
	if v.Counted {
		left := w.DeadAfter(&s.Rules) - w.Quiet(s.host.Now())
		return max(min(s.closeTimeout, s.Rules.AskEvery(), left), time.Millisecond)
	}
	if v.Asks {
		return max(min(s.closeTimeout, s.Rules.PressAfter()), time.Millisecond)
	}
	return s.closeTimeout
}

// askSuccessor also probes the peer's end of the new connection. A peer that answers the probe of
// the new connection has also received the probe of the old one.
func (s *Watches[E]) askSuccessor(ep E) {
	var none E
	latest := s.host.Latest(ep)
	if latest == none || s.watchOf(latest).superseded {
		return
	}
	if v := s.host.View(latest); v.Connected && !v.Handshaking {
		s.host.Ask(latest, 0)
	}
}

// whySuperseded returns the reason for the end of a superseded endpoint. If the peer has
// answered a probe on the new connection meanwhile, the peer's end of the old connection is
// gone. Other packets prove nothing, because a peer that is busy computing may send, but
// answers no probe.
func (s *Watches[E]) whySuperseded(ep E, v *Verdict) Why {
	var none E
	latest := s.host.Latest(ep)
	if latest != none && s.watchOf(latest).Unanswered(s.host.Now()) < v.Owed/2 {
		return WhyReplaced
	}
	return WhyDead
}
