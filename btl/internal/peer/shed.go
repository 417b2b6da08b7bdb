package peer

import (
	"gobtl/frag"
)

// Peers may hold reassembly memory only while their fragments make progress. When a peer's
// fragment is refused for lack of memory, the module checks the peers that hold memory. The
// endpoint of a live peer whose fragments have not grown for PeerTimeout is ended, so that other
// peers can continue. The peer whose endpoint was ended gets a Bye with the reason (frag.ByeShed).

// WantsMemory is called when a peer's fragment was refused for lack of memory or of a slot. The
// argument refused of wantsMemory is the endpoint of the peer whose fragment was refused. Silent
// peers that hold memory are probed. Among the live peers without progress, the one that holds
// the most memory is ended. An endpoint is ended only if wantsMemory was also called within the
// last PeerTimeout, which shows that a peer keeps waiting for memory.
func (en *Endings) WantsMemory(refused *Endpoint) {
	en.Timers.Watches.AskSilent(func(ep *Endpoint) bool { return ep.Asm.Active() > 0 })
	now := en.Clock.Unpaused
	if !refused.Asm.HasReserve() {
		refused.goesOnAt = now // progress counts from now on, should the peer get memory
	}
	if now < en.Timers.shedAt || !en.Pool.Short() {
		return
	}
	anew := now.Sub(en.Timers.shedAt) >= en.Config.PeerTimeout
	en.Timers.shedAt = now.Add(en.Timers.Watches.Rules.PressAfter())
	var worst *Endpoint
	most := int64(0)
	for _, ep := range en.Peers.All() {
		if ep == nil || ep.ID.State() != StateConnected || ep.Asm.ActiveBytes() == 0 {
			continue
		}
		since := now.Add(-ep.Life.DeadAfter(&en.Timers.Watches.Rules))
		bytes := ep.Asm.Stalled(int64(now), int64(since))
		if anew {
			ep.goesOnAt = now
		} else if ep.goesOnAt <= since && bytes > most {
			worst, most = ep, bytes
		}
	}
	if worst != nil {
		en.EndTelling(worst, frag.ByeShed, EventFailed, ErrStalled)
	}
}
