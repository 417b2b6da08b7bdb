package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/liveness"
	"gobtl/frag"
	"gobtl/hotel"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// An endpoint has one timer. Its meaning depends on the endpoint's state: onTimer takes the action
// of the first condition that holds:
//
//	a reliable fabric could not carry a packet   the end, at once
//	half open                                    the end: the peer has not proven its address
//	closed by the peer                           the end of repeating the last ACK
//	closing                                      the end of a close that does not get on
//	handshake under way                          the next round of Hellos, or its end; at once if
//	                                             it begins again under another tag
//	superseded                                   the next question whether the peer is there still
//	an answer owed on a counted link             the next question for it (link_watch.go)
//	else                                         the next keep-alive question

// peerTimers is the timers of peers, and the rules for their silence.
type peerTimers struct {
	timers      *hotel.Hotel[uint32] // one for each endpoint, by its place
	pathTimers  *hotel.Hotel[uint32] // of the searches for the size of datagrams
	lifeRules   liveness.Rules
	shedAt      Time // when peers that hold memory may be looked at again
	askSilentAt Time // when silent peers may be asked again for what others want
}

func (p *peerTimers) init(peersMax int) (err error) {
	if p.timers, err = hotel.New[uint32](hotel.Config{Rooms: peersMax}); err == nil {
		p.pathTimers, err = hotel.New[uint32](hotel.Config{Rooms: peersMax})
	}
	return err
}

// setTimer sets the endpoint's only timer to expire after d.
func (m *Module) setTimer(ep *Endpoint, d time.Duration) {
	m.clearTimer(ep)
	room, err := m.timers.Checkin(m.now, d, ep.id.Slot)
	if err != nil {
		// As many rooms as endpoints, and one timer each.
		panic("btl: no room for an endpoint's timer: " + err.Error())
	}
	ep.room = room
}

func (m *Module) clearTimer(ep *Endpoint) {
	m.timers.Checkout(ep.room)
	ep.room = 0
	ep.counting.watched = false
}

// connectedTimer starts the timer of a connected endpoint, if it needs one.
func (m *Module) connectedTimer(ep *Endpoint) {
	ep.asksWatched = false // whatever the timer was for until now
	switch {
	case ep.closing:
		m.setTimer(ep, m.cfg.CloseTimeout-m.nowUnpaused.Sub(max(ep.life.AckedAt(), ep.closeAt)))
	case ep.superseded:
		m.setTimer(ep, m.supersededTimeout(ep))
	case ep.owed():
		m.watch(ep, m.lifeRules.AskEvery())
	case ep.remote.Waiting() > 0:
		m.watchAsks(ep)
	case m.cfg.KeepAlive > 0:
		m.setTimer(ep, m.cfg.KeepAlive/2)
	default:
		m.clearTimer(ep)
	}
}

// expire handles expired timers; received says whether the pass has received any packet.
func (m *Module) expire(received bool) {
	if !m.recovery.Spare(m.gap > lateGap && received) {
		for s := m.recovery.Expire(m.now); s != nil; s = m.recovery.Expire(m.now) {
			m.sched.rearm(m.peers.At(s.Number()))
		}
	}
	if m.draining && m.now >= m.drainUntil {
		for _, ep := range m.peers.All() {
			if ep != nil {
				m.end(ep, EventClosed, ErrClosed)
			}
		}
	}
	for {
		slot, _, ok := m.timers.Evict(m.now)
		if !ok {
			break
		}
		ep := m.peers.At(slot)
		ep.room, ep.counting.watched = 0, false
		m.onTimer(ep)
	}
	m.endPauses()
	m.expirePaths()
}

func (m *Module) onTimer(ep *Endpoint) {
	switch {
	case ep.counting.broken && ep.state == stateConnected:
		m.end(ep, EventFailed, fmt.Errorf("%w: the fabric cannot carry its packets", ErrPeerDead))
	case ep.state == stateAccepting:
		m.stats.counters[CntPeersFailed]++
		m.end(ep, EventFailed, ErrUnreachable)
	case ep.state == stateLingering:
		m.end(ep, EventClosed, ErrPeerClosed)
	case ep.closing && ep.state == stateConnected:
		m.onCloseTimer(ep)
	case ep.hs != nil:
		m.onHelloTimer(ep)
	case ep.superseded:
		m.onSuperseded(ep)
	case ep.owed():
		m.onWatch(ep)
	case ep.watches() && m.cfg.KeepAlive < 0 && !ep.life.Pressed() && ep.remote.Waiting() == 0:
		// The timer was for packets that are confirmed by now.
	default:
		m.onKeepAlive(ep)
	}
}

// onCloseTimer ends a stalled close: no new ACK for CloseTimeout. Other packets of the peer do not
// prolong it. A peer that may be half open is told that the connection is established.
func (m *Module) onCloseTimer(ep *Endpoint) {
	quiet := m.nowUnpaused.Sub(max(ep.life.AckedAt(), ep.closeAt))
	if quiet >= m.cfg.CloseTimeout {
		m.end(ep, EventClosed, ErrClosed)
		return
	}
	left := m.cfg.CloseTimeout - quiet
	if hs := ep.hs; hs != nil {
		hs.ConfirmAgain(m.random())
		m.sendProbes(ep)
		left = min(left, hs.NextRound())
	}
	m.setTimer(ep, left)
}

// onSuperseded probes a peer that has connected anew for its end of the old connection. That end
// may still exist: Hellos overtake each other, so the seemingly new connection may be an older one
// that is closed already. Without an answer for PeerTimeout the old endpoint ends.
func (m *Module) onSuperseded(ep *Endpoint) {
	if ep.life.IsThere() {
		ep.superseded = false
		ep.life.ForgetThere()
		m.peers.LeadToIfFree(ep)
		m.connectedTimer(ep)
		return
	}
	v := ep.life.Verdict(m.nowUnpaused, &m.lifeRules, liveness.Sign, 0)
	if !m.askAgain(ep, &v) {
		m.end(ep, EventFailed, m.whySuperseded(ep, &v))
		return
	}
	m.askSuccessor(ep)
	ep.life.AskedThere(m.nowUnpaused)
	m.askHello(ep, frag.ProbeCommand)
	again := min(m.cfg.CloseTimeout, m.cfg.PeerTimeout) / (liveness.TriesMin + 1)
	if ep.watches() {
		again = v.Next(again)
	}
	m.setTimer(ep, max(again, time.Millisecond))
}

// supersededTimeout is the delay of the first probe of a superseded peer: short if it owes an
// answer, as a counted link has no other timer that would detect its death.
func (m *Module) supersededTimeout(ep *Endpoint) time.Duration {
	if ep.watches() {
		left := ep.life.DeadAfter(&m.lifeRules) - ep.life.Quiet(m.nowUnpaused)
		return max(min(m.cfg.CloseTimeout, m.lifeRules.AskEvery(), left), time.Millisecond)
	}
	if ep.remote.Waiting() > 0 {
		return max(min(m.cfg.CloseTimeout, m.lifeRules.PressAfter()), time.Millisecond)
	}
	return m.cfg.CloseTimeout
}

// askSuccessor probes the peer's end of the new connection, too: a peer that answers there has also
// received the probe of the old one.
func (m *Module) askSuccessor(ep *Endpoint) {
	now := m.peers.ByAddr(ep.id.Addr)
	if now != nil && now.state == stateConnected && now.hs == nil && !now.superseded {
		m.askHello(now, frag.ProbeCommand)
	}
}

// whySuperseded is the error of a superseded endpoint: the peer's end of it is gone, if the peer
// has answered a probe of the new connection meanwhile. Other packets prove nothing: a peer that is
// busy computing may send, but answers no probe.
func (m *Module) whySuperseded(ep *Endpoint, v *liveness.Verdict) error {
	now := m.peers.ByAddr(ep.id.Addr)
	if now != nil && now.life.Unanswered(m.nowUnpaused) < v.Owed/2 {
		return ErrPeerClosed
	}
	return dead(v)
}

func (m *Module) onHelloTimer(ep *Endpoint) {
	hs := ep.hs
	if hs.ContestLost() {
		m.restart(ep)
		return // to here at once
	}
	if ep.state == stateConnected && ep.watches() {
		m.onUnconfirmed(ep)
		return
	}
	if hs.Left(m.nowUnpaused) <= 0 {
		if ep.state == stateConnected { // it works; only the confirmation never came
			ep.hs = nil
			m.connectedTimer(ep)
			m.beginPath(ep)
			return
		}
		m.end(ep, EventFailed, m.whyNot(ep))
		return
	}
	if ep.state == stateConnected {
		hs.ConfirmAgain(m.random())
	}
	m.sayHello(ep)
}

// sayHello begins a round of Hellos.
func (m *Module) sayHello(ep *Endpoint) {
	hs := ep.hs
	m.sendProbes(ep)
	if ep.maybeStale() {
		m.askHelloOf(ep, frag.ProbeCommand, 0)
		m.askHelloOf(ep, frag.ProbeData, 0)
	}
	m.setTimer(ep, min(hs.NextRound(), hs.Left(m.nowUnpaused)))
}

// askSilent probes the silent endpoints among those that hold a scarce resource, before KeepAlive
// is over. It scans all endpoints, so it does so only at intervals.
func (m *Module) askSilent(holds func(*Endpoint) bool) {
	if m.nowUnpaused < m.askSilentAt {
		return
	}
	silence := m.lifeRules.PressAfter()
	m.askSilentAt = m.nowUnpaused.Add(silence)
	for _, ep := range m.peers.All() {
		if ep == nil || ep.state != stateConnected || ep.closing || ep.superseded || ep.hs != nil ||
			ep.life.Pressed() || ep.owed() || ep.life.Quiet(m.nowUnpaused) < silence || !holds(ep) {
			continue
		}
		ep.life.Press()
		m.setTimer(ep, 0)
	}
}

// askAgain says whether a silent peer that is not dead is to be probed again, and counts the probe.
// If the last probe had no answer, it also probes whether the peer has restarted.
func (m *Module) askAgain(ep *Endpoint, v *liveness.Verdict) bool {
	if v.Dead {
		return false
	}
	if ep.life.Asked() {
		m.askLife(ep)
	}
	return true
}

// peerClosed ends an endpoint whose peer has said goodbye. The endpoint lingers for a while, to
// repeat the ACK of the Bye.
func (m *Module) peerClosed(ep *Endpoint) {
	err := whyEnded(ep.byeCode)
	if ep.closing {
		err = ErrClosed // both closed at the same time
	}
	ep.state = stateLingering
	ep.hs = nil // a late answer to it must not connect the endpoint again
	m.fail(ep, EventClosed, err)
	m.peers.ForgetAddr(ep)
	m.leave(ep)
	ep.rcv.AskAck(m.now, 0)
	m.acks.owe(ep, m.now)
	m.setTimer(ep, m.cfg.CloseTimeout)
}

// leave gives an endpoint's share of the credits back to the others.
func (m *Module) leave(ep *Endpoint) {
	if ep.state == stateAccepting {
		m.peers.RemoveHalfOpen(ep.id.Addr)
	}
	if ep.joined {
		ep.joined = false
		ep.rcv.Leave(m.credits)
		m.credits.Leave()
	}
}

// lateGap is the gap between two passes from which on packet timers are handled a pass later.
const lateGap = time.Millisecond

// posted starts the timer of a segment, for at most a quarter of PeerTimeout, so that the segment
// is sent several times before a peer is declared dead.
func (m *Module) posted(ep *Endpoint, t reliability.Token, n seq.Num, lone bool) {
	c := m.segs[t].channel()
	if lone {
		m.stats.counters[CntLoneAnswers]++
		ep.snd.PostLone(m.now, t, n, c, m.cfg.PeerTimeout/4)
		return
	}
	ep.snd.Post(m.now, t, n, c, m.cfg.PeerTimeout/4)
}

// postedRun starts the timers of chunks that one pass has sent one after the other, under the
// numbers from n on.
func (m *Module) postedRun(ep *Endpoint, run []reliability.Token, n seq.Num) {
	m.stats.counters[CntSentChunk] += uint64(len(run))
	ep.snd.PostRun(m.now, run, n, reliability.Data, m.cfg.PeerTimeout/4)
}
