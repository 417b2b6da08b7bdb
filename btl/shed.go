package btl

import "gobtl/frag"

// Memory to put fragments together is given for progress. While a peer is refused for want of it,
// those that hold some are looked at: one whose fragments have not grown for PeerTimeout, though it
// is alive and the others could go on, is ended, so that they do. It learns why (frag.ByeShed).

// wantsMemory is called when a peer was refused a fragment for want of memory, or of a place. The
// silent among those that may hold memory in vain are asked whether they are there, and of those
// that are there and do not go on the one that holds most is ended. A look at them counts only if
// there was one within PeerTimeout before it: else nobody has waited meanwhile.
func (m *Module) wantsMemory(refused *Endpoint) {
	m.askSilent(func(ep *Endpoint) bool { return ep.asm.Active() > 0 })
	now := m.nowUnpaused
	if !refused.asm.HasReserve() {
		refused.goesOnAt = now // if it got memory
	}
	if now < m.shedAt || !m.pool.Short() {
		return
	}
	anew := now.Sub(m.shedAt) >= m.cfg.PeerTimeout
	m.shedAt = now.Add(m.lifeRules.PressAfter())
	var worst *Endpoint
	most := int64(0)
	for _, ep := range m.peers.All() {
		if ep == nil || ep.state != stateConnected || ep.asm.ActiveBytes() == 0 {
			continue
		}
		since := now.Add(-ep.life.DeadAfter(&m.lifeRules))
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
