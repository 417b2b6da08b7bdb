package liveness

import "time"

// A counted link has no packet timers to detect a dead peer. Instead it probes the peer when an
// awaited confirmation does not come.

// Watch starts the timer for an outstanding confirmation.
func (s *Watches[E]) Watch(ep E, d time.Duration) {
	s.Set(ep, d)
	s.watchOf(ep).watched = true
}

// mayAsk says whether a peer may be asked for a confirmation out of its turn.
func (w *Watch) mayAsk(v *View) bool {
	return v.Counted && v.Connected && !v.Closing && !w.superseded && !w.broken
}

// Urge asks at once for the confirmation of what is in flight, if all was sent, and the link is
// counted.
func (s *Watches[E]) Urge(ep E) {
	if w, v := s.watchOf(ep), s.host.View(ep); w.mayAsk(&v) && v.InFlight && !v.Unsent {
		s.Watch(ep, 0)
	}
}

// Takes notes that the peer says that it is established.
func (s *Watches[E]) Takes(ep E) {
	if w := s.watchOf(ep); !w.takes {
		w.takes = true
		s.AskMissed(ep)
	}
}

// AskMissed probes a peer at once, now that both sides are established, if its ACKs came too early:
// they carried its first credits, which it does not repeat unasked.
func (s *Watches[E]) AskMissed(ep E) {
	w, v := s.watchOf(ep), s.host.View(ep)
	if w.missed && w.mayAsk(&v) && v.Owed() && !v.Handshaking {
		s.Watch(ep, 0)
	}
}

// Break has a connected endpoint end soon, as the fabric could not carry a packet to its peer.
func (s *Watches[E]) Break(ep E) {
	if w := s.watchOf(ep); !w.broken {
		w.broken = true
		s.Set(ep, 0)
	}
}

// onWatch probes for a confirmation, or declares a peer dead that has not answered for too long.
func (s *Watches[E]) onWatch(ep E, w *Watch, v *View) {
	verdict := w.Verdict(s.host.Now(), &s.Rules, Confirm, 0)
	if verdict.Owed < s.Rules.AskEvery() && !w.missed && s.mayAnswer(w, v) {
		s.Watch(ep, s.Rules.AskEvery())
		return
	}
	if !s.askAgain(ep, w, &verdict) {
		s.host.End(ep, WhyDead, &verdict)
		return
	}
	s.ask(ep, w)
	// While a probe for credits that came too early is pending, for lack of room or because the peer
	// has not said yet that it is established, the interval is shorter.
	every := s.Rules.AskEvery()
	if w.missed {
		every = min(every, helloIntervalMax)
	}
	s.Watch(ep, verdict.Next(every))
}

// mayAnswer says whether the answer to the last probe may be on its way: no packet was sent after
// it, and the peer was heard since. If the round trip exceeds the probe interval, another probe is
// useless; as each needs its own answer, they would never end. A peer that ignores the probe is
// probed again after PeerTimeout, whatever else it sends.
func (s *Watches[E]) mayAnswer(w *Watch, v *View) bool {
	return w.asked == v.Next && w.HeardAfter(w.askedAt) &&
		s.host.Now().Sub(w.askedAt) < s.Rules.PeerTimeout
}

// ask sends a packet that requests a confirmation. Without room for it, the next probe will do. A
// peer that is not known to be established would drop a counted packet: it gets a Hello instead.
func (s *Watches[E]) ask(ep E, w *Watch) {
	if !w.takes {
		s.host.Ask(ep, 0)
	} else if s.host.Question(ep) {
		w.missed = false
	} else {
		return
	}
	w.asked, w.askedAt = s.host.View(ep).Next, s.host.Now()
}

// onUnconfirmed continues to probe a peer until it is known to be connected too, for until then
// nothing may be sent to it.
func (s *Watches[E]) onUnconfirmed(ep E, w *Watch) {
	verdict := w.Verdict(s.host.Now(), &s.Rules, Sign, 0)
	if !s.askAgain(ep, w, &verdict) {
		s.host.End(ep, WhyDead, &verdict)
		return
	}
	s.Set(ep, verdict.Next(min(s.host.SendRound(ep), s.Rules.AskEvery())))
}
