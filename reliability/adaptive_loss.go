package reliability

import (
	"time"

	"gobtl/internal/mono"
)

// The functions in this file decide which packets in flight are lost.

// The method "arrived" is called when an ACK reports that the packet of segment t has arrived. The
// method "arrived" updates the state of the loss recovery, and frees segment t.
func (a *adaptive) arrived(s *Sender, now mono.Time, t Token) {
	p := s.segment(t)
	if p.state == Resend || p.lost {
		a.lost--
		s.board.takeBack(p.seq)
		if p.lost {
			a.stopWaiting(s, p)
		}
	}
	if p.resends == 0 && !a.gaps { // in order, sent once
		s.segs.release(t, p)
		return
	}
	took := now.Sub(p.postedAt)
	c := &a.latestArrived[p.channel]
	later := c.at > p.postedAt || c.at == p.postedAt && p.seq.Before(c.seq)
	copied := p.resends > 0 && a.selective
	switch {
	case a.inOrder: // the original packet arrived, and its copy is in transit
	case p.resends > 0 && took < a.least(p.channel) && !a.paths[p.channel].stale(now):
	case later:
		if p.resends == 0 && c.rtt != 0 && a.selective { // the packet was late, and was not lost
			a.reorderSeen = max(a.reorderSeen, took-c.rtt)
		}
	default:
		if path := &a.paths[p.channel]; !a.selective && path.srtt != 0 {
			took = min(took, path.wait()) // the packet may have arrived long ago
		}
		if copied {
			a.onResentArrived(arrival{at: p.postedAt, seq: p.seq, rtt: took, seenAt: now})
			break
		}
		*c = arrival{at: p.postedAt, seq: p.seq, rtt: took, seenAt: now}
		if p.channel == Data || p.postedAt > a.resentArrived.at {
			a.resentArrived = arrival{}
		}
		a.arrivedOutOfTurn = true
	}
	s.segs.release(t, p)
}

// onResentArrived records the arrival of a packet that was retransmitted at least once.
func (a *adaptive) onResentArrived(d arrival) {
	if a.latestArrived[Data].seenAt == d.seenAt || a.resentArrived.at > d.at {
		return
	}
	a.resentArrived = d
	a.arrivedOutOfTurn = true
}

// The method "proves" reports whether the arrived packet d was sent later than packet p, so that
// packet p is possibly lost.
func (d *arrival) proves(p *segment) bool {
	return d.at > p.postedAt || d.at == p.postedAt && p.seq.Before(d.seq) && d.rtt != 0
}

// The method "least" estimates the shortest possible time between the transmission of a packet on a
// channel and the receipt of its ACK. The result of the method "least" is the lowest measured round
// trip of the given channel. If no round trip was measured on the given channel, the method "least"
// returns the lowest round trip of the connection's other channel. If no round trip was measured on
// either channel, the method "least" returns ResendTimeoutMin.
func (a *adaptive) least(c Channel) time.Duration {
	if base := a.paths[c].base; base != 0 {
		return base
	}
	if base := a.paths[1-c].base; base != 0 {
		return base
	}
	return a.shared.rules.ResendTimeoutMin
}

// reorderWindow returns the reordering window of a channel (RFC 8985), which is the time beyond one
// round trip that the sender waits for an ACK of an overtaken packet before it declares the packet
// lost.
func (a *adaptive) reorderWindow(c Channel) time.Duration {
	p := &a.paths[c]
	return min(max(p.base/4, a.reorderSeen+a.reorderSeen/4)<<a.reorderShift, p.wait())
}

// findLost declares packets lost, and then puts as many lost packets on the retransmission list as
// the retransmission budget and the congestion window permit.
func (a *adaptive) findLost(s *Sender, now mono.Time) {
	known := a.lostWaiting
	a.markLost(s, now)
	found := a.lostWaiting - known
	a.ask(s, now)
	a.sendLost(s)
	if a.resendBudget < budgetUnits {
		a.shared.counted.Throttled += uint64(max(min(found, a.lostWaiting), 0))
	}
}

// markLost declares packets lost according to the rules of the profile adaptive, and computes the
// time of the next check for lost packets. Unacknowledged packets that were sent before a restart
// of the congestion window are declared lost at the time sweepAt, even if no packet that was sent
// after them has arrived.
func (a *adaptive) markLost(s *Sender, now mono.Time) {
	a.arrivedOutOfTurn, a.lossAt = false, mono.Never
	grace := [channels]time.Duration{a.reorderWindow(Command), a.reorderWindow(Data)}
	across := max(a.paths[Command].wait()+grace[Command], a.paths[Data].wait()+grace[Data],
		a.shared.rules.ProbeTimeoutMin)
	last := max(a.latestArrived[Command].at, a.latestArrived[Data].at)
	proven := a.resentArrived.seenAt.Add(a.peerDelay + delayNoise)
	for n := s.board.nextOpen(s.oldest, s.next); n != s.next; n = s.board.nextOpen(n+1, s.next) {
		p := s.segment(s.at(n))
		base := a.paths[p.channel].base
		c := &a.latestArrived[p.channel]
		at := mono.Never
		if p.postedAt <= a.restartedAt {
			at = a.sweepAt
		}
		switch {
		case at <= now:
		case c.proves(p):
			at = p.postedAt.Add(max(c.rtt, base) + grace[p.channel])
		case last > p.postedAt.Add(across):
			at = now
		case p.channel == Data && a.resentArrived.proves(p):
			at = max(p.postedAt.Add(max(a.resentArrived.rtt, base)+grace[Data]), proven)
		case a.resentArrived.at > p.postedAt.Add(across):
			at = proven
		case p.postedAt >= max(last, a.resentArrived.at) && p.resends == 0 && a.newest.Before(n):
			if at == mono.Never {
				return // this packet and all later packets are too new to be lost
			}
		}
		if at > now {
			a.lossAt = a.lossAt.Min(at) // which may be Never
			continue
		}
		p.lost, p.cause = true, CauseLost
		s.needBoard().setAside(n)
		a.lost++
		a.lostWaiting++
		if p.postedAt > a.restartedAt { // losses from before the restart do not shrink the window
			a.lostOne(s, n)
		}
	}
}

// sendLost puts as many lost packets on the retransmission list as the retransmission budget and
// the congestion window permit.
func (a *adaptive) sendLost(s *Sender) {
	room := a.room(s)
	b, end := s.board, s.next
	for n := b.nextAside(s.oldest, end); n != end && a.lostWaiting > 0; n = b.nextAside(n+1, end) {
		if a.resendBudget < budgetUnits || room <= 0 {
			return
		}
		t := s.at(n)
		if p := s.segment(t); p.state == Posted && !p.refused() { // otherwise on the resend list
			a.sendAgain(s, t, p.cause)
			room--
		}
	}
}
