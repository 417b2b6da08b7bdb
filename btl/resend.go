package btl

import (
	"fmt"
	"time"

	"gobtl/reliability"
)

// sendAgain sends the segments of the resend list, at most ResendsPerPass, on the data channel, so
// that ACKs never queue behind them.
func (m *Module) sendAgain() {
	for range m.rules.ResendsPerPass {
		if m.recovery.ResendsWaiting() == 0 || m.data.room() <= 0 {
			return
		}
		t, cause, _ := m.recovery.PopResend()
		s := &m.segs[t]
		ep := s.ep
		if timedOut(cause) && m.deadFor(ep) >= m.cfg.PeerTimeout &&
			ep.silentResends >= silentResendsMin {
			m.recovery.Defer(t)
			m.end(ep, EventFailed, fmt.Errorf("%w: silent for %v, %d packets sent again", ErrPeerDead,
				m.deadFor(ep).Round(time.Millisecond), ep.silentResends))
			continue
		}
		if !m.buffers.busy(t) { // else the last copy has not even left
			m.countResend(ep, cause)
			m.refresh(ep, t, s)
			m.data.putSegment(t, ep.dataAddr)
		}
		// The wait is cut short so that a dead peer is noticed when its time is up, not a back-off later.
		limit := m.cfg.PeerTimeout - m.deadFor(ep)
		if limit <= 0 {
			limit = time.Millisecond
		}
		ep.snd.Repost(m.now, t, limit)
		m.sched.rearm(ep)
	}
}

// silentResendsMin is the number of unanswered resends without which no peer is declared dead: a
// process that was itself stopped for a while finds all its timers expired.
const silentResendsMin = 3

// deadFor is how long an answer of the peer has been due.
func (m *Module) deadFor(ep *Endpoint) time.Duration {
	return m.nowUnpaused.Sub(max(ep.heardAt, ep.waitSince))
}

// timedOut says whether a packet is sent again because no answer came.
func timedOut(cause reliability.Cause) bool {
	return cause == reliability.CauseTimeout || cause == reliability.CauseProbe
}

func (m *Module) countResend(ep *Endpoint, cause reliability.Cause) {
	if timedOut(cause) {
		// A process that was stopped finds all timers expired, and short ones again at once, while the
		// answers are still to be read: then only what follows after a while asks the peer again.
		if ep.silentResends == 0 || !m.cmd.left && !m.data.left ||
			m.nowUnpaused.Sub(ep.silentAt) >= m.cfg.PeerTimeout/16 {
			ep.silentResends++
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
