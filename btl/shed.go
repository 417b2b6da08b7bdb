package btl

import "gobtl/frag"

// Peers may hold reassembly memory only while their fragments make progress. When a peer's
// fragment is refused for lack of memory, the module checks the peers that hold memory. The
// endpoint of a live peer whose fragments have not grown for PeerTimeout is ended, so that other
// peers can continue. The ended peer is told the reason (frag.ByeShed).

// wantsMemory is called when a peer's fragment was refused for lack of memory or of a slot. The
// argument refused of wantsMemory is the endpoint of the peer whose fragment was refused. Silent
// peers that hold memory are probed. Among the live peers without progress, the one that holds
// the most memory is ended. An endpoint is ended only if wantsMemory was also called within the
// last PeerTimeout, which shows that a peer keeps waiting for memory.
func (m *Module) wantsMemory(refused *Endpoint) {
	m.watches.AskSilent(func(ep *Endpoint) bool { return ep.asm.Active() > 0 })
	now := m.clock.Unpaused
	if !refused.asm.HasReserve() {
		refused.goesOnAt = now // progress counts from now on, should the peer get memory
	}
	if now < m.shedAt || !m.pool.Short() {
		return
	}
	anew := now.Sub(m.shedAt) >= m.cfg.PeerTimeout
	m.shedAt = now.Add(m.watches.Rules.PressAfter())
	var worst *Endpoint
	most := int64(0)
	for _, ep := range m.peers.All() {
		if ep == nil || ep.id.State() != stateConnected || ep.asm.ActiveBytes() == 0 {
			continue
		}
		since := now.Add(-ep.life.DeadAfter(&m.watches.Rules))
		bytes := ep.asm.Stalled(int64(now), int64(since))
		if anew {
			ep.goesOnAt = now
		} else if ep.goesOnAt <= since && bytes > most {
			worst, most = ep, bytes
		}
	}
	if worst != nil {
		m.endTelling(worst, frag.ByeShed, EventFailed, ErrStalled)
	}
}
