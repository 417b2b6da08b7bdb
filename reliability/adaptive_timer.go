package reliability

import (
	"time"

	"gobtl/internal/mono"
)

// The method "posted" records when a packet was sent, and starts the Sender's retransmission timer
// if the timer is not running. The method "posted" usually leaves a running timer unchanged,
// because a new packet can only postpone the time-out.
func (a *adaptive) posted(s *Sender, now mono.Time, c Channel, limit time.Duration) {
	a.sentAt[c] = now
	if a.timer != 0 && a.progressAt != longAgo && !a.refused.some() && limit == a.waitMax &&
		!a.pacer.short(s.next) {
		return
	}
	if a.backoff == 0 {
		a.waitMax = limit
		if a.progressAt == longAgo && now.Sub(a.ackedAt) >= a.shared.rules.ResendTimeoutMin {
			a.rouses = true
			a.setWait()
		}
	}
	a.run(s, now)
}

func (a *adaptive) reposted(s *Sender, now mono.Time, t Token, limit time.Duration) {
	a.lost--
	s.board.takeBack(s.segment(t).seq)
	a.resentInRound[0]++
	a.pacer.again++
	a.sentAt[Data], a.waitMax = now, limit
	a.run(s, now)
}

// Leaves records that a packet, for which Post was called before, leaves the module at the time
// "now". The caller is allowed to delay the transmission after Post until its next progress call.
// After Leaves, the round trip and the time-out of the packet are counted from the time "now".
// Leaves does not affect retransmitted packets.
func (s *Sender) Leaves(now mono.Time, t Token) {
	a, p := s.policy.adaptive, s.segment(t)
	if a != nil && p.state == Posted && p.resends == 0 {
		p.postedAt, a.sentAt[p.channel] = now, now
	}
}

// The method "hasten" ends the extended time-out of a lone reply, which is a packet whose ACK the
// peer is allowed to delay. After a call of the method "hasten", the lone reply (a packet whose ACK
// may be delayed) has the time-out of an ordinary packet sent at the time "now".
func (a *adaptive) hasten(s *Sender, now mono.Time) {
	a.sentAt[s.segment(s.at(s.oldest)).channel], a.progressAt = now, now
	a.run(s, now)
}

func (a *adaptive) run(s *Sender, now mono.Time) {
	if a.progressAt == longAgo {
		a.progressAt = now
	}
	due := a.due(s)
	if a.pacer.short(s.next) {
		due = due.Min(a.pacer.due)
	}
	if a.timer == 0 || due < a.timerAt {
		a.wake(s, now, due)
	}
}

// The method "due" returns the time at which the next retransmission time-out occurs if no ACK
// arrives. The first retransmission time-out is counted from the packet sent last, because the ACK
// of the last packet covers all packets in flight. The first retransmission time-out occurs at the
// latest when four times the time "wait" has passed since the latest ACK of new packets. Each
// retransmission time-out after the first one is counted from the previous time-out.
func (a *adaptive) due(s *Sender) mono.Time {
	at := a.ackedAt.Add(a.paths[a.lastMeasured].srtt/2 + a.peerDelay)
	longest := max(a.wait[Command], a.wait[Data])
	if a.backoff > 0 {
		at = max(at, a.progressAt.Add(max(min(longest, a.waitMax), 0)))
	} else {
		last := max(at, a.progressAt.Add(max(min(4*longest, a.waitMax), 0)))
		for c, sent := range a.sentAt {
			at = max(at, sent.Add(max(min(a.wait[c], a.waitMax), 0)))
		}
		at = min(at, last)
	}
	if s.oldest == s.next {
		return at
	}
	if a.restsRefused(s) {
		return mono.Never
	}
	p := s.segment(s.at(s.oldest))
	at = max(at, p.postedAt.Add(max(min(a.wait[p.channel], a.waitMax), 0)))
	if s.patient {
		at = at.Add(LoneAckDelay)
	}
	return at
}

// setWait computes the field "wait", which contains, for each channel, the time without an ACK
// after which a retransmission time-out occurs.
func (a *adaptive) setWait() {
	rules := a.shared.rules
	probeLeast := rules.ProbeTimeoutMin
	if a.rouses {
		probeLeast = rules.ResendTimeoutMin
	}
	for c := range channels {
		p, times := &a.paths[c], time.Duration(1)
		if p.srtt == 0 {
			p, times = &a.paths[1-c], 2
		}
		var wait time.Duration
		switch {
		case p.srtt == 0:
			wait = rules.ResendTimeout
		case a.backoff == 0:
			a.wait[c] = max(times*p.probe()+a.peerDelay, probeLeast)
			continue
		default:
			wait = max(times*p.wait()+a.peerDelay, rules.ResendTimeoutMin)
		}
		if wait > rules.ResendTimeoutMax>>a.backoff {
			wait = rules.ResendTimeoutMax
		} else {
			wait <<= a.backoff
		}
		a.wait[c] = wait
	}
}

// The method "wake" makes the Sender's timer expire at the given time, unless the timer already
// expires at an earlier time.
func (a *adaptive) wake(s *Sender, now, at mono.Time) {
	if a.timer != 0 {
		if a.timerAt <= at {
			return
		}
		a.shared.timers.Checkout(a.timer)
	}
	room, err := a.shared.timers.Checkin(now, at.Sub(now), s)
	if err != nil {
		panic("reliability: no room for a peer's timer: " + err.Error())
	}
	a.timer, a.timerAt = room, at
}

// The method "timeout" is called at a time-out. The method "timeout" queues one packet for
// retransmission, which is the oldest packet in flight that the peer has not refused.
func (a *adaptive) timeout(s *Sender, now mono.Time) {
	cause := CauseTimeout
	a.progressAt = now
	if a.backoff == 0 {
		cause = CauseProbe
	}
	if a.backoff < backoffMax {
		a.backoff++
	}
	a.setWait()
	if a.backoff == backoffRestart {
		a.cong.restart(a.shared.rules)
		a.restartedAt, a.sweepAt = now, mono.Never
	}
	for n := s.oldest; n != s.next; n++ {
		if t := s.at(n); t != noToken && !s.segment(t).refused() {
			a.sendAgain(s, t, cause)
			return
		}
	}
}

// pace computes how many new packets the pacer permits the Sender to send at the time "now".
func (a *adaptive) pace(s *Sender, now mono.Time) {
	p := &a.pacer
	c, path := &a.cong, &a.paths[a.lastMeasured]
	if a.fixed || c.spread == 0 && (c.ramp == 0 || path.srtt < rampLeast*time.Duration(c.window)) &&
		(!c.slow || path.base <= a.shared.rules.TargetDelay/2) {
		p.on = false
		return
	}
	window := max(min(c.window, int32(s.window)), 1)
	every := (path.srtt + a.ackLag) * 4 / time.Duration(5*window)
	if c.slow {
		every = (path.srtt + a.ackLag) / time.Duration(2*window)
	}
	burst := time.Duration(max(paceBurst, window/paceShare))
	if p.refill(now, s.next, s.oldest == s.next, max(every, 1), burst) {
		a.wake(s, now, p.due)
	}
}
