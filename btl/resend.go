package btl

import (
	"fmt"
	"time"

	"gobtl/frag"
	"gobtl/reliability"
)

// sendAgain sends the segments of the resend list, at most ResendsPerPass, on the data channel, so
// that ACKs never queue behind them.
func (m *Module) sendAgain() {
	for range m.rules.ResendsPerPass {
		if m.recovery.ResendsWaiting() == 0 || m.port.Data.Room() <= 0 {
			return
		}
		t, cause, _ := m.recovery.PopResend()
		s := &m.segs[t]
		ep := s.ep
		owed := m.owedFor(ep)
		sent, enough, again := ep.silentResends, silentResendsMin, time.Millisecond
		deadAfter := m.deadAfter(ep)
		if m.nowUnpaused.Sub(ep.heardAt) < deadAfter {
			sent, enough, again = ep.oldestResends, owedResendsMin, m.cfg.PeerTimeout/16
		}
		if cause != reliability.CauseRefused && owed >= deadAfter+m.unreadGrace() && sent >= enough {
			m.recovery.Defer(t)
			if ep.narrow(0) {
				m.endNarrow(ep)
				continue
			}
			m.endTelling(ep, frag.ByeDead, EventFailed, fmt.Errorf("%w: a packet is not acknowledged "+
				"for %v, sent again %d times; if a NAT gave it another address, dial it again",
				ErrPeerDead, owed.Round(time.Millisecond), sent))
			continue
		}
		lostBytes, alone := 0, m.port.Alone(segBuf(t))
		if !m.port.Busy(segBuf(t)) { // else the last copy has not even left
			if ep.tooLarge(int(s.bytes)) && m.partsRoom(ep, int(s.bytes)) == 0 {
				m.recovery.Defer(t)
				return
			}
			if withheld := ep.snd.Withheld(m.seqOf(t)); !withheld {
				if cause != reliability.CauseRefused && cause != reliability.CauseMemory && !s.parted {
					lostBytes = int(s.bytes)
				}
				m.countResend(ep, t, cause)
			}
			m.refresh(ep, t, s)
			if ep.tooLarge(int(s.bytes)) {
				m.putParts(ep, t)
			} else {
				m.putSegment(&m.port.Data, t, ep.dataAddr)
			}
		}
		// The wait is cut short so that a dead peer is noticed when its time is up, not a back-off later.
		limit := deadAfter - owed
		if limit <= 0 {
			limit = again
		}
		ep.snd.Repost(m.now, t, limit)
		m.sched.rearm(ep)
		m.pathLost(ep, lostBytes, alone)
	}
}

// deadAfter is for how long a peer may owe an answer.
func (m *Module) deadAfter(ep *Endpoint) time.Duration { return m.cfg.PeerTimeout + ep.away }

// unreadGrace is for how much longer no peer is declared dead: what it says may be among packets
// that are here and were not read yet, by a process that makes few passes. That there are always
// some does not keep a dead one for ever.
func (m *Module) unreadGrace() time.Duration {
	if m.port.Command.Left() || m.port.Data.Left() {
		return m.cfg.PeerTimeout / 4
	}
	return 0
}

// silentResendsMin is the number of unanswered resends without which no peer is declared dead: a
// process that was itself stopped for a while finds all its timers expired.
const silentResendsMin = 3

// owedResendsMin is that of the oldest packet for a peer that was heard of meanwhile: its path may
// be one that loses much, and then some more copies tell.
const owedResendsMin = 8

// owedFor is for how long the peer has owed the acknowledgement of the oldest packet in flight,
// whatever else was heard of it: a path may carry small packets only, and answers to nothing.
func (m *Module) owedFor(ep *Endpoint) time.Duration {
	return m.nowUnpaused.Sub(max(ep.oldestAt, ep.waitSince))
}

// answered notes that the peer has acknowledged the oldest packet in flight, or has told that it
// has no memory for it.
func (m *Module) answered(ep *Endpoint) {
	ep.oldestAt = m.nowUnpaused
	ep.oldestResends = 0
}

// answeredBy is answered if a segment that the peer has said something of is the oldest in flight.
func (m *Module) answeredBy(ep *Endpoint, t reliability.Token) {
	if m.isOldest(ep, t) {
		m.answered(ep)
	}
}

// deadFor is how long an answer of the peer has been due on a counted link.
func (m *Module) deadFor(ep *Endpoint) time.Duration {
	return m.nowUnpaused.Sub(max(ep.heardAt, ep.waitSince))
}

// isOldest says whether a segment is the oldest in flight.
func (m *Module) isOldest(ep *Endpoint, t reliability.Token) bool {
	oldest, _ := ep.snd.Window()
	first, ok := ep.snd.Token(oldest)
	return ok && first == t
}

// timedOut says whether a packet is sent again because no answer came.
func timedOut(cause reliability.Cause) bool {
	return cause == reliability.CauseTimeout || cause == reliability.CauseProbe ||
		cause == reliability.CauseMemory
}

func (m *Module) countResend(ep *Endpoint, t reliability.Token, cause reliability.Cause) {
	if m.isOldest(ep, t) {
		ep.oldestResends++
	}
	if timedOut(cause) {
		// A process that was stopped finds all timers expired, and short ones again at once, while the
		// answers are still to be read: then only what follows after a while asks the peer again.
		if ep.silentResends == 0 || !m.port.Command.Left() && !m.port.Data.Left() ||
			m.nowUnpaused.Sub(ep.silentAt) >= m.cfg.PeerTimeout/16 {
			if ep.silentResends++; ep.silentResends >= silentResendsMin && ep.silentAt != m.nowUnpaused {
				m.askLife(ep) // the one before was in vain
			}
			ep.silentAt = m.nowUnpaused
		}
	}
	switch cause {
	case reliability.CauseTimeout:
		m.stats.counters[CntRetransmitTimeout]++
	case reliability.CauseProbe:
		m.stats.counters[CntRetransmitProbe]++
	case reliability.CauseDupAck:
		m.stats.counters[CntRetransmitDupAck]++
	case reliability.CauseLost:
		m.stats.counters[CntRetransmitLost]++
	default:
		m.stats.counters[CntRetransmitNack]++
	}
	m.dirty = true
}
