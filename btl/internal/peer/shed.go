package peer

import (
	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/liveness"
	"gobtl/frag"
	"gobtl/internal/mono"
)

// Peers may hold reassembly memory only while their fragments make progress. After a refusal for
// lack of memory, the module checks the peers that hold memory. The module ends the endpoint of a
// live peer whose fragments have received almost no bytes for PeerTimeout (see Stalled of
// frag.Assembler). The ended peer gets a Bye with the reason (frag.ByeShed).
//
// A peer whose next packet in sequence was refused for lack of memory cannot make progress, because
// its window does not advance. A refused packet delays its own fragment and later fragments, but
// not earlier fragments. A sender sends all chunks of a fragment before the first chunk of the next
// fragment, so that chunks of earlier fragments have arrived, or will never arrive.

// The type "blocked" holds the latest refusal, for lack of memory, of the next packet in sequence
// from a peer.
type blocked struct {
	at     mono.Time
	fragID uint32 // the fragment that needs the packet
}

// blockedAt records that the peer's next packet, of fragment fragID, was refused for lack of
// memory.
func (ep *Endpoint) blockedAt(now mono.Time, fragID uint32) {
	if ep.blocked == nil {
		ep.blocked = new(blocked)
	}
	*ep.blocked = blocked{now, fragID}
}

// The method "stalled" returns the size, in bytes, of the reassembly memory that the peer holds
// without progress. The size excludes fragments that have made progress after the time "since", or
// that wait behind a packet that this side has refused.
func (ep *Endpoint) stalled(now, since mono.Time) int64 {
	var b blocked
	if ep.blocked != nil {
		b = *ep.blocked
	}
	all, before := ep.Asm.Stalled(int64(now), int64(since), b.fragID)
	if b.at > since {
		return before
	}
	return all
}

// WantsMemory is called when the next packet in sequence from a peer was refused because the pool
// lacks memory. WantsMemory is not called if the refused peer itself has used all memory of the
// pool. The argument "refused" of WantsMemory is the endpoint of the peer whose packet was refused,
// and the argument fragID is the fragment of the packet. Silent peers that hold memory are probed.
// Among the live peers without progress, WantsMemory ends the endpoint of the peer that holds the
// most memory. An endpoint is ended only if WantsMemory was also called earlier within the last
// PeerTimeout, which shows that a peer keeps waiting for memory.
func (en Endings) WantsMemory(refused *Endpoint, fragID uint32) {
	en.Timers.Watches.AskSilent(liveness.Memory, func(ep *Endpoint) bool {
		return ep.Asm.Active() > 0
	})
	now := en.Clock.Unpaused
	if !refused.Asm.HasReserve() {
		refused.blockedAt(now, fragID) // the peer's window cannot advance at present
	}
	if now < en.Timers.shedAt {
		return
	}
	if now.Sub(en.Timers.shedAt) >= en.Config.PeerTimeout {
		en.Timers.scarce = now
	}
	en.Timers.shedAt = now.Add(en.Timers.Watches.Rules.PressAfter())
	var worst *Endpoint
	most := int64(0)
	for _, ep := range en.Peers.All() {
		if ep == nil || ep.ID.State != StateConnected || ep.Asm.ActiveBytes() == 0 {
			continue
		}
		since := now.Add(-ep.Life.DeadAfter(&en.Timers.Watches.Rules))
		if bytes := ep.stalled(now, since); en.Timers.scarce <= since && bytes > most {
			worst, most = ep, bytes
		}
	}
	if worst != nil {
		en.EndTelling(worst, frag.ByeShed, EventFailed, errs.ErrStalled)
	}
}
