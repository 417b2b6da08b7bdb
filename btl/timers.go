package btl

import (
	"time"

	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/path"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// peerTimers are when something is to be done for a peer.
type peerTimers struct {
	watches liveness.Watches[*Endpoint] // one for each endpoint
	paths   path.Paths[*Endpoint]       // the searches for the size of datagrams
	shedAt  Time                        // when peers that hold memory may be looked at again
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
	m.watches.Expire()
	m.endPauses()
	m.paths.Expire()
}

// endRestarted ends an endpoint if a Reject, which came from source, answers the question of
// AskLife, and says whether it does: it comes from the peer's address, and the known incarnation
// was not heard since. An attacker who sees the question can make another module reject it, but not
// from the peer's address.
func (m *Module) endRestarted(tag uint64, r frag.Reject, source []byte) bool {
	ep := m.peers.Lookup(tag)
	if ep == nil || ep.id.State() != stateConnected || r.Reason != frag.RejectStale ||
		!ep.life.AnswersLife(r.Nonce) || len(source) != 0 && string(source) != ep.id.Addr {
		return false
	}
	m.end(ep, EventFailed, ErrPeerRestarted)
	return true
}

// peerClosed ends an endpoint whose peer has said goodbye. The endpoint lingers for a while, to
// repeat the ACK of the Bye.
func (m *Module) peerClosed(ep *Endpoint) {
	err := whyEnded(ep.byeCode)
	if ep.closing {
		err = ErrClosed // both closed at the same time
	}
	m.peers.Linger(ep)
	m.fail(ep, EventClosed, err)
	m.leave(ep)
	ep.rcv.AskAck(m.now, 0)
	m.acks.Owe(&ep.rcv, m.now)
	m.watches.Set(ep, m.cfg.CloseTimeout)
}

// leave gives an endpoint's share of the credits back to the others.
func (m *Module) leave(ep *Endpoint) {
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
