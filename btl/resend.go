package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/liveness"
	"gobtl/reliability"
)

// sendAgain retransmits packets, at most ResendsPerPass in one call. Retransmissions use the data
// channel, so that acknowledgements on the command channel never wait behind retransmissions.
func (m *Module) sendAgain() {
	for range m.rules.ResendsPerPass {
		if m.recovery.ResendsWaiting() == 0 || m.port.Data.Room() <= 0 {
			return
		}
		t, cause, _ := m.recovery.PopResend()
		s := &m.segs[t]
		ep := s.ep
		v := ep.life.Verdict(m.clock.Unpaused, &m.watches.Rules, liveness.Ack, m.unreadGrace())
		if v.Dead && cause != reliability.CauseRefused {
			m.recovery.Defer(t)
			m.endDead(ep, &v)
			continue
		}
		lostBytes, alone := 0, m.port.Alone(segBuf(t))
		if !m.port.Busy(segBuf(t)) { // otherwise the previous transmission was not sent yet
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
		ep.snd.Repost(m.clock.Now, t, v.Within)
		m.sched.rearm(ep)
		m.paths.Lost(ep, lostBytes, alone)
	}
}

func dead(v *liveness.Verdict) error { return fmt.Errorf("%w: %s", ErrPeerDead, v.Why()) }

// unreadGrace is the additional time before a peer is declared dead, for packets of the peer that
// this side has not read.
func (m *Module) unreadGrace() time.Duration {
	if m.port.Command.Left() || m.port.Data.Left() {
		return m.cfg.PeerTimeout / 4
	}
	return 0
}

// answeredBy is called when the peer has acknowledged packet t, or has reported a lack of memory
// for packet t. If t is the oldest packet in flight, answeredBy records that the peer has answered.
func (m *Module) answeredBy(ep *Endpoint, t reliability.Token) {
	if isOldest(&ep.snd, t) {
		ep.life.OldestAnswered(m.clock.Unpaused)
	}
}

func isOldest(s *reliability.Sender, t reliability.Token) bool {
	oldest, _ := s.Window()
	first, ok := s.Token(oldest)
	return ok && first == t
}

// timedOut reports whether a packet is retransmitted because the peer did not acknowledge it in
// time, or lacked memory for it.
func timedOut(cause reliability.Cause) bool {
	return cause == reliability.CauseTimeout || cause == reliability.CauseProbe ||
		cause == reliability.CauseMemory
}

func (m *Module) countResend(ep *Endpoint, t reliability.Token, cause reliability.Cause) {
	unread := m.port.Command.Left() || m.port.Data.Left()
	if ep.life.Resent(m.clock.Unpaused, &m.watches.Rules, isOldest(&ep.snd, t), timedOut(cause),
		unread) {
		m.watches.AskLife(ep)
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
