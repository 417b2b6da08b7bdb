package liveness

import "time"

// A connection over a reliable fabric (counted link) has no retransmission timers, and therefore
// probes the peer when an expected acknowledgement does not arrive.

// Watch starts the timer for an outstanding acknowledgement.
func (s *Watches[E]) Watch(ep E, d time.Duration) {
	s.Set(ep, d)
	s.watchOf(ep).Watched = true
}

// mayAsk reports whether the endpoint's state allows this side to request an acknowledgement from
// the peer before the endpoint's timer expires.
func (w *Watch) mayAsk(v *View) bool {
	return v.Counted && v.Connected && !v.Closing && !w.Superseded && !w.broken
}

// Urge immediately asks the peer to acknowledge the packets in flight. Urge does nothing on a
// connection over an unreliable fabric, or while a packet waits to be sent.
func (s *Watches[E]) Urge(ep E) {
	if w, v := s.watchOf(ep), s.host.View(ep); w.mayAsk(&v) && v.InFlight && !v.Unsent {
		s.Watch(ep, 0)
	}
}

// Takes records the peer's report that the connection is established on the peer's side.
func (s *Watches[E]) Takes(ep E) {
	if w := s.watchOf(ep); !w.takes {
		w.takes = true
		s.AskMissed(ep)
	}
}

// AskMissed immediately probes a peer whose first ACKs arrived before the connection was
// established on this side. The peer's first ACKs grant this side its first credits, and the peer
// repeats this grant only when it is probed.
func (s *Watches[E]) AskMissed(ep E) {
	w, v := s.watchOf(ep), s.host.View(ep)
	if w.missed && w.mayAsk(&v) && v.Owed() && !v.Handshaking {
		s.Watch(ep, 0)
	}
}

// Break schedules the end of a connected endpoint. The caller must call Break when a reliable
// fabric could not carry a packet to the peer.
func (s *Watches[E]) Break(ep E) {
	if w := s.watchOf(ep); !w.broken {
		w.broken = true
		s.Set(ep, 0)
	}
}

// onWatch requests an acknowledgement from the peer, or ends the endpoint if the peer counts as
// dead (Peer.Verdict).
func (s *Watches[E]) onWatch(ep E, w *Watch, v *View) {
	verdict := w.Verdict(*s.now, &s.Rules, Confirm, 0)
	if verdict.Owed < s.Rules.AskEvery() && !w.missed && s.mayAnswer(w, v) {
		s.Watch(ep, s.Rules.AskEvery())
		return
	}
	if !s.askAgain(ep, w, &verdict) {
		s.host.End(ep, WhyDead, verdict)
		return
	}
	s.ask(ep, w)
	every := s.Rules.AskEvery()
	if w.missed {
		every = min(every, helloIntervalMax)
	}
	s.Watch(ep, verdict.Next(every))
}

// mayAnswer reports whether the answer to the latest probe is possibly still in flight. The answer
// is possibly in flight if the probe was sent less than PeerTimeout ago, no packet was sent after
// the probe, and a packet of the peer has arrived after the probe was sent. A peer that ignores the
// probe is probed again after PeerTimeout, even if packets from this peer arrive.
func (s *Watches[E]) mayAnswer(w *Watch, v *View) bool {
	d := w.doubts
	return d != nil && d.confirmNext == v.Next && w.HeardAfter(d.confirmAt) &&
		s.now.Sub(d.confirmAt) < s.Rules.PeerTimeout
}

// ask sends a packet that requests an acknowledgement from the peer. If no send buffer is free, ask
// sends nothing, and is called again when the endpoint's timer expires.
func (s *Watches[E]) ask(ep E, w *Watch) {
	if !w.takes {
		s.host.Ask(ep, 0)
	} else if s.host.Question(ep) {
		w.missed = false
	} else {
		return
	}
	d := w.doubted()
	d.confirmNext, d.confirmAt = s.host.View(ep).Next, *s.now
}

// onUnconfirmed probes a peer until the peer has reported that the connection is established. Until
// the peer has reported that the connection is established, this side must not send data to the
// peer.
func (s *Watches[E]) onUnconfirmed(ep E, w *Watch) {
	verdict := w.Verdict(*s.now, &s.Rules, Sign, 0)
	if !s.askAgain(ep, w, &verdict) {
		s.host.End(ep, WhyDead, verdict)
		return
	}
	s.Set(ep, verdict.Next(min(s.host.SendRound(ep), s.Rules.AskEvery())))
}
