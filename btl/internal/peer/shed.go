package peer

import (
	"gobtl/frag"
)

// A peer is allowed to use reassembly memory only while its fragments make progress. When a peer's
// fragment is refused for lack of memory, the module checks all peers that use reassembly memory.
// If the fragments of a live peer have hardly grown for PeerTimeout (see Stalled of
// frag.Assembler), the module ends the endpoint of this peer, so that the waiting peers can
// continue. The peer whose endpoint was ended gets a Bye with the reason (frag.ByeShed). A peer
// without progress keeps its memory as long as no fragment of a peer is refused for lack of memory.

// WantsMemory is called when a peer's fragment was refused because the pool lacks memory. A refusal
// that only the refused peer has caused is no reason to call WantsMemory. The argument "refused" of
// WantsMemory is the endpoint of the peer whose fragment was refused. WantsMemory probes silent
// peers that hold memory. Among the live peers without progress, WantsMemory ends the endpoint of
// the peer that holds the most memory. WantsMemory ends an endpoint only if this is not the first
// call of WantsMemory within PeerTimeout, because only repeated calls show that a peer keeps
// waiting for memory.
func (en Endings) WantsMemory(refused *Endpoint) {
	en.Timers.Watches.AskSilent(func(ep *Endpoint) bool { return ep.Asm.Active() > 0 })
	now := en.Clock.Unpaused
	if !refused.Asm.HasReserve() {
		refused.goesOnAt = now // progress counts from now on, should the peer get memory
	}
	if now < en.Timers.shedAt {
		return
	}
	anew := now.Sub(en.Timers.shedAt) >= en.Config.PeerTimeout
	en.Timers.shedAt = now.Add(en.Timers.Watches.Rules.PressAfter())
	var worst *Endpoint
	most := int64(0)
	for _, ep := range en.Peers.All() {
		if ep == nil || ep.ID.State != StateConnected || ep.Asm.ActiveBytes() == 0 {
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
