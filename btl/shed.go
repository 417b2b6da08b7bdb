package btl

import "gobtl/frag"

// Memory to put fragments together is given for progress. While a peer is refused for want of it,
// those that hold some are looked at: one whose fragments have not grown for PeerTimeout, though it
// is alive and the others could go on, is ended, so that they do. It learns why (frag.ByeShed).

// held is how a peer's unfinished fragments have grown, as far as was looked.
type held struct {
	bytes int64 // the most that had come of them
	since Time  // when that was, on the axis of clock.nowUnpaused; 0: nobody has looked
}

// growsBy is the part of what a peer holds by which it must grow to have gone on: a packet now and
// then is no progress.
const growsBy = 64

// grown looks at a peer's fragments, and says whether they have grown, or some have ended, since
// the latest look at which they had.
func (h *held) grown(now Time, arrivedBytes, heldBytes int64) bool {
	if h.since != 0 && arrivedBytes <= h.bytes+heldBytes/growsBy && arrivedBytes > h.bytes/2 {
		return false
	}
	h.bytes, h.since = arrivedBytes, now
	return true
}

// wantsMemory is called when a peer was refused a fragment for want of memory, or of a place. The
// silent among those that may hold it in vain are asked whether they are there, and of those that
// are there and do not go on the one that holds most is ended.
func (m *Module) wantsMemory(refused *Endpoint) {
	m.askSilent(func(ep *Endpoint) bool { return ep.asm.Active() > 0 })
	refused.heldMem = held{refused.asm.ArrivedBytes(), m.nowUnpaused} // it would go on
	if m.nowUnpaused < m.shedAt {
		return
	}
	m.shedAt = m.nowUnpaused.Add(m.pressAfter())
	var worst *Endpoint
	for _, ep := range m.slots.Values() {
		if ep == nil || ep == refused || ep.state != stateConnected || ep.asm.ActiveBytes() == 0 ||
			ep.heldMem.grown(m.nowUnpaused, ep.asm.ArrivedBytes(), ep.asm.ActiveBytes()) ||
			m.nowUnpaused.Sub(ep.heldMem.since) < m.deadAfter(ep) {
			continue
		}
		if worst == nil || ep.asm.ActiveBytes() > worst.asm.ActiveBytes() {
			worst = ep
		}
	}
	if worst != nil {
		m.endTelling(worst, frag.ByeShed, EventFailed, ErrStalled)
	}
}
