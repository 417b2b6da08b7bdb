package reliability

import (
	"math/bits"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// processAck processes an acknowledgement. The argument "sack" of processAck is the selective part
// of the ACK, or nil if the ACK has none. processAck appends the Tokens of the freed segments to
// the slice "done".
func (a *adaptive) processAck(s *Sender, now mono.Time, ack seq.Num, sack *Sack,
	done []Token,
) []Token {
	before := len(done)
	// The congestion window counts as full if at most min(8, window/16) packets of it are unused, or
	// if only the pacer prevents the sender from filling it.
	if a.onTheWay(s) >= a.cong.window-min(8, a.cong.window/16) || s.blocked && a.pacer.short(s.next) {
		a.cong.limited = true
	}
	a.measure(s, now, ack, sack)
	if sack != nil && len(sack.Words) > 0 {
		a.gaps = true
	}
	a.inOrder = !a.gaps && ack.Sub(s.oldest) > 0
	segs := s.segs
	for ; s.oldest != ack+1; s.oldest++ {
		t := s.at(s.oldest)
		if t == noToken {
			s.board.unmarkEarly(s.oldest)
			s.sacked--
			continue
		}
		if p := &segs.segs[t]; p.state == Posted && p.resends == 0 && !p.lost && !a.gaps {
			p.state = Free // the same as the method arrived, for nearly all packets
			segs.posted--
		} else {
			a.arrived(s, now, t)
		}
		done = append(done, t)
	}
	a.newest = a.newest.Max(ack)
	if sack != nil {
		done = a.onWords(s, now, ack, sack.Words, done)
		a.onDuplicates(sack.Copies)
	}
	for ; s.oldest != s.next && s.at(s.oldest) == noToken; s.oldest++ {
		s.board.unmarkEarly(s.oldest)
		s.sacked-- // the peer contradicts itself
	}
	if n := int32(len(done) - before); n > 0 {
		a.ackedAt, a.progressAt, a.backoff, a.rouses, s.patient = now, now, 0, false, false
		if s.oldest == s.next || a.restsRefused(s) {
			a.progressAt = longAgo
		}
		a.setWait()
		a.heardAgain(s, now)
		if due := a.due(s); s.oldest != s.next && due < a.timerAt {
			a.wake(s, now, due)
		}
		a.cong.grow(n, s.window)
		a.resendBudget = min(a.resendBudget+n, budgetFirst+budgetUnits*s.next.Sub(s.oldest))
		// While packets are missing, path.wait ends a round trip even if a full window permits no packet.
		if !a.newest.Before(a.roundEnd) || a.gaps && now.Sub(a.roundAt) > a.paths[a.lastMeasured].wait() {
			took := now.Sub(a.roundAt)
			a.roundEnd, a.roundAt = s.next, now
			a.endRound(s, took)
		}
	}
	if a.refused.asking {
		a.answered(s)
	}
	if a.arrivedOutOfTurn || a.lostWaiting > 0 || a.lossAt <= now {
		a.lookForLost(s, now)
	}
	a.gaps = s.sacked > 0 || a.lost > 0 || a.resentArrived.at != 0
	a.pace(s, now)
	a.stop(s)
	s.updateSendLimit()
	return done
}

// lookForLost calls findLost, and sets the timer for the next check for lost packets.
func (a *adaptive) lookForLost(s *Sender, now mono.Time) {
	a.findLost(s, now)
	if a.lossAt != mono.Never {
		a.wake(s, now, a.lossAt)
	}
}

// heardAgain is called for the first ACK after several time-outs have restarted the congestion
// window. heardAgain sets sweepAt, the time at which all unacknowledged packets from before the
// restart are declared lost.
func (a *adaptive) heardAgain(s *Sender, now mono.Time) {
	if a.sweepAt == mono.Never && a.restartedAt != longAgo {
		a.sweepAt = now.Add(a.paths[a.lastMeasured].wait() + a.peerDelay)
		a.lossAt = a.lossAt.Min(a.sweepAt)
		a.wake(s, now, a.lossAt)
	}
}

// The method "measure" takes a round-trip sample from the packet that arrived last. The method
// "measure" takes a sample only from a packet that no earlier ACK has acknowledged and that was
// never retransmitted (Karn's algorithm). An ACK without a selective part gives no round-trip
// sample if it covers a retransmitted packet, because it does not say which packet has caused the
// ACK. The ACK of a lone reply (a reply whose ACK may be delayed) gives no round-trip sample if it
// has no selective part, because the peer can have delayed this ACK by an unknown time.
func (a *adaptive) measure(s *Sender, now mono.Time, ack seq.Num, sack *Sack) {
	n, delay := ack, time.Duration(0)
	if sack != nil {
		n, delay = sack.Last, sack.Delay
	}
	t, ok := s.Token(n)
	if !ok {
		return
	}
	p := s.segment(t)
	if p.state != Posted || p.resends > 0 || sack == nil && (p.lone || resentUpTo(s, ack)) {
		return
	}
	rtt := now.Sub(p.postedAt)
	if delay < rtt {
		rtt -= delay
	}
	a.lastMeasured = p.channel
	path := &a.paths[p.channel]
	if c := &a.cong; c.unhalved == 0 && rtt < path.base-max(path.base/16, (delayNoise+path.jitter)/8) {
		c.rounds, c.dipAfter, c.vain, c.met = 0, dipLeast, 0, true
	}
	path.sample(now, rtt)
	path.vary(n, p.postedAt, rtt)
	least := rtt
	if sack != nil && sack.Unread > unreadLeast {
		least = max(rtt-sack.Unread, min(rtt, path.base)) // time that the network can have taken
	}
	a.cong.sample(now, least, rtt, path, n, s.next, a.shared.rules)
}

// resentUpTo reports whether any unacknowledged packet with a number below "ack" was retransmitted
// or is on the retransmission list.
func resentUpTo(s *Sender, ack seq.Num) bool {
	for n := s.oldest; n != ack; n++ {
		if t := s.at(n); t != noToken && (s.segment(t).resends > 0 || s.segment(t).state == Resend) {
			return true
		}
	}
	return false
}

// onWords processes the bitmap of a selective ACK, which says which packets after the first gap
// have arrived. onWords frees the segments of the packets that have arrived according to the
// bitmap.
func (a *adaptive) onWords(s *Sender, now mono.Time, ack seq.Num, words []uint64,
	done []Token,
) []Token {
	first := ack + sackAhead
	for _, word := range words {
		for word &^= s.board.earlyFrom(first); word != 0; word &= word - 1 {
			n := first + seq.Num(bits.TrailingZeros64(word))
			i := uint32(n) & uint32(len(s.ring)-1)
			t := s.ring[i]
			if t == noToken || n.Before(s.oldest) {
				continue
			}
			a.arrived(s, now, t)
			done = append(done, t)
			s.ring[i] = noToken
			s.needBoard().markEarly(n)
			s.sacked++
			a.newest = a.newest.Max(n)
		}
		first += 64
	}
	return done
}

// onDuplicates processes an ACK's count of duplicate packets that the peer has received. Each
// increase of the peer's count of duplicates by one shows that a retransmission in the last two
// round trips was spurious.
func (a *adaptive) onDuplicates(copies uint32) {
	d := int32(copies - a.copies)
	if d <= 0 {
		return // an older ACK
	}
	a.copies = copies
	spurious := min(d, a.resentInRound[0]+a.resentInRound[1])
	a.spurious += uint32(spurious)
	a.cong.excuse(spurious)
	a.shared.counted.Spurious += uint64(spurious)
	for i := range a.resentInRound {
		n := min(spurious, a.resentInRound[i])
		a.resentInRound[i] -= n
		spurious -= n
	}
}

// endRound makes those decisions of the loss recovery and the congestion control that are made once
// per round trip.
func (a *adaptive) endRound(s *Sender, took time.Duration) {
	p := &a.paths[a.lastMeasured]
	a.cong.calm = a.cong.calm.Max(s.oldest)
	before := a.cong.window
	a.cong.endRound(a.shared.rules, p, int32(s.window), took)
	if a.cong.window < before {
		a.cong.calm, a.cong.above = s.next, 0
	}
	s.blocked = false
	a.untested = min(a.untested, untestedRounds) + 1
	a.ackLag = min(max(took-a.paths[a.lastMeasured].srtt, 0), a.peerDelay)
	a.cong.flight = a.onTheWay(s)
	a.resendBudget += budgetRound + budgetUnits*s.next.Sub(s.oldest)/4
	a.resentInRound[0], a.resentInRound[1] = 0, a.resentInRound[0]
	if a.spurious != a.spuriousSeen {
		a.spuriousSeen = a.spurious
		a.reorderShift = min(a.reorderShift+1, reorderShiftMax)
		a.quietRounds = 0
	} else if a.quietRounds++; a.quietRounds >= quietRoundsMax {
		a.quietRounds = 0
		a.reorderSeen -= a.reorderSeen / 8
		if a.reorderShift > 0 {
			a.reorderShift--
		}
	}
}

// onSack processes a selective acknowledgement.
func (a *adaptive) onSack(s *Sender, now mono.Time, upTo seq.Num, sack *Sack,
	done []Token,
) ([]Token, AckVerdict) {
	before := len(done)
	done = a.processAck(s, now, upTo, sack, done)
	switch {
	case len(done) > before:
		return done, AckNew
	case len(sack.Words) > 0:
		return done, AckDuplicate
	}
	return done, AckIdle
}

// onPlainAck processes a cumulative ACK without a selective part. If the peer does not support
// selective ACKs, a repeated ACK means that a packet is missing, as in the profile usnic. A packet
// that was sent less than a round trip ago is not retransmitted because of a repeated ACK.
func (a *adaptive) onPlainAck(s *Sender, now mono.Time, upTo seq.Num, quiet bool,
	done []Token,
) ([]Token, AckVerdict) {
	before := len(done)
	done = a.processAck(s, now, upTo, nil, done)
	switch {
	case len(done) > before || upTo+1 != s.oldest:
		return done, AckNew
	case s.oldest == s.next || quiet || a.selective:
		return done, AckIdle
	}
	t := s.at(s.oldest)
	p := s.segment(t)
	if p.state == Posted && now.Sub(p.postedAt) >= a.least(p.channel) {
		a.sendAgain(s, t, CauseDupAck)
		a.lostOne(s, p.seq)
		s.updateSendLimit()
	}
	return done, AckDuplicate
}
