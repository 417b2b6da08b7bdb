package btl

import (
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/path"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// peerTimers holds the timers of all peers.
type peerTimers struct {
	watches liveness.Watches[*Endpoint] // one timer for each endpoint
	paths   path.Paths[*Endpoint]       // timers of the searches for the path MTU
	shedAt  Time                        // earliest time of the next check of peers that hold memory
}

// expire handles expired timers.
func (m *Module) expire() {
	for s := m.recovery.Expire(m.now); s != nil; s = m.recovery.Expire(m.now) {
		m.sched.rearm(m.peers.At(s.Number()))
	}
	if m.draining && m.now >= m.drainUntil {
		for _, ep := range m.peers.All() {
			if ep != nil {
				m.end(ep, EventClosed, ErrClosed)
			}
		}
	}
	m.watches.Expire()
	if m.handshakes.OnRequestsTimer() {
		m.dirty = true
	}
	if m.sched.pauses.Due(m.now) {
		m.sched.pauses.End(m.now, m.resume)
	}
	m.paths.Expire()
}

// endRestarted ends an endpoint whose peer has restarted. endRestarted returns true if the
// restart is proven. A restart is proven by a Reject that answers the AskLife probe and
// comes from the peer's address. The restart is not proven if a packet of the peer's known
// incarnation has arrived after the AskLife probe was sent. The argument source of
// endRestarted is the address of the sender of the Reject.
func (m *Module) endRestarted(tag uint64, r frag.Reject, source []byte) bool {
	ep := m.peers.Lookup(tag)
	if ep == nil || ep.id.State() != stateConnected || r.Reason != frag.RejectStale ||
		!ep.life.AnswersLife(r.Nonce) || len(source) != 0 && string(source) != ep.id.Addr {
		return false
	}
	m.end(ep, EventFailed, ErrPeerRestarted)
	return true
}

// peerClosed ends an endpoint whose peer has sent a Bye. The endpoint lingers for CloseTimeout, to
// acknowledge retransmissions of the Bye.
func (m *Module) peerClosed(ep *Endpoint) {
	err := whyEnded(ep.byeCode)
	if ep.closing {
		err = ErrClosed // the two ends have closed at the same time
	}
	m.peers.Linger(ep)
	m.fail(ep, EventClosed, err)
	m.leave(ep)
	ep.rcv.AskAck(m.now, 0)
	m.acks.Owe(&ep.rcv, m.now)
	m.watches.Set(ep, m.cfg.CloseTimeout)
}

// leave makes the receive credits of an endpoint available to other endpoints.
func (m *Module) leave(ep *Endpoint) {
	if ep.joined {
		ep.joined = false
		ep.rcv.Leave(m.credits)
		m.credits.Leave()
	}
}

// posted starts the retransmission timer of packet n in send buffer t. The retransmission
// timer is limited to a quarter of PeerTimeout, so that a packet is sent several times
// before the peer is declared dead.
func (m *Module) posted(ep *Endpoint, t reliability.Token, n seq.Num, lone bool) {
	c := m.segs[t].channel()
	if lone {
		m.stats.counters[CntLoneAnswers]++
		ep.snd.PostLone(m.now, t, n, c, m.cfg.PeerTimeout/4)
		return
	}
	ep.snd.Post(m.now, t, n, c, m.cfg.PeerTimeout/4)
}

func (m *Module) postedRun(ep *Endpoint, run []reliability.Token, n seq.Num) {
	m.stats.counters[CntSentChunk] += uint64(len(run))
	ep.snd.PostRun(m.now, run, n, reliability.Data, m.cfg.PeerTimeout/4)
}
