package btl

import (
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/path"
)

// peerTimers holds the timers of all peers.
type peerTimers struct {
	watches liveness.Watches[*Endpoint] // one timer for each endpoint
	paths   path.Paths[*Endpoint]       // timers of the searches for the path MTU
	shedAt  Time                        // earliest time of the next check of peers that hold memory
}

// expire handles expired timers.
func (m *Module) expire() {
	for s := m.recovery.Expire(m.clock.Now); s != nil; s = m.recovery.Expire(m.clock.Now) {
		m.sched.rearm(m.peers.At(s.Number()))
	}
	if m.draining && m.clock.Now >= m.drainUntil {
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
	if m.sched.pauses.Due(m.clock.Now) {
		m.sched.pauses.End(m.clock.Now, m.resume)
	}
	m.paths.Expire()
}
