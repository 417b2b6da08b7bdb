package liveness

import "time"

// Supersede must be called when the peer has opened a new connection, and has probably closed or
// lost the old connection. Supersede starts to probe whether the peer's end of the old connection
// still exists.
func (s *Watches[E]) Supersede(old E) {
	w, v := s.watchOf(old), s.host.View(old)
	w.Superseded = true
	w.ForgetThere()
	if !v.Counted { // count only the probes from now on
		w.AskAnew()
	}
	s.Set(old, s.supersededTimeout(w, &v))
}

// onSuperseded probes whether the peer's end of an old connection still exists, after the peer has
// opened a new connection. If the peer does not answer for PeerTimeout, the endpoint of the old
// connection ends.
func (s *Watches[E]) onSuperseded(ep E, w *Watch, v *View) {
	now := *s.now
	if w.IsThere() {
		w.Superseded = false
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

// supersededTimeout returns the time until the first probe on an old connection that the peer has
// replaced by a new connection. If an answer of the peer is outstanding on the replaced connection,
// the first probe is sent soon, because no other timer would detect that the peer is dead.
func (s *Watches[E]) supersededTimeout(w *Watch, v *View) time.Duration {
	if v.Counted {
		left := w.DeadAfter(&s.Rules) - w.Quiet(*s.now)
		return max(min(s.closeTimeout, s.Rules.AskEvery(), left), time.Millisecond)
	}
	if v.Asks {
		return max(min(s.closeTimeout, s.Rules.PressAfter()), time.Millisecond)
	}
	return s.closeTimeout
}

// askSuccessor probes the peer on the connection that has replaced the old connection ep.
func (s *Watches[E]) askSuccessor(ep E) {
	var none E
	latest := s.host.Latest(ep)
	if latest == none || s.watchOf(latest).Superseded {
		return
	}
	if v := s.host.View(latest); v.Connected && !v.Handshaking {
		s.host.Ask(latest, 0)
	}
}

// whySuperseded returns the reason for the end of an old connection that the peer has replaced by a
// new connection. If the peer has answered a probe on the new connection, the peer's end of the old
// connection counts as gone.
func (s *Watches[E]) whySuperseded(ep E, v *Verdict) Why {
	var none E
	latest := s.host.Latest(ep)
	if latest != none && s.watchOf(latest).Unanswered(*s.now) < v.Owed/2 {
		return WhyReplaced
	}
	return WhyDead
}
