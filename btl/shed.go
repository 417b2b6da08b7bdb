package btl

import "gobtl/frag"

// Peers may hold reassembly memory only while they make progress. While a peer is refused for lack
// of memory, the holders are checked: a live peer whose fragments have not grown for PeerTimeout is
// ended, so that others can go on. The ended peer is told why (frag.ByeShed).

// wantsMemory is called when a peer's fragment was refused for lack of memory, or of a slot. Silent
// peers that hold memory are probed; of the live ones without progress, the largest holder is
// ended. A check counts only if another one was made within the PeerTimeout before: else no peer
// has been waiting.
func (m *Module) wantsMemory(refused *Endpoint) {
	m.watches.AskSilent(func(ep *Endpoint) bool { return ep.asm.Active() > 0 })
	now := m.nowUnpaused
	if !refused.asm.HasReserve() {
		refused.goesOnAt = now // if it got memory
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
