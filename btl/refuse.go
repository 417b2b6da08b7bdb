package btl

import (
	"gobtl/frag"
	"gobtl/internal/seq"
)

// refusal is a chunk that was refused for good. When a Void comes in its place, its sender has
// failed the fragment: what has arrived of it is thrown away, and so is what still arrives.
type refusal struct {
	seq    seq.Num
	fragID uint32
	failed bool // the Void has come
}

// refusalsMax bounds the refused chunks that are remembered for an endpoint. Of more than that the
// oldest are forgotten, which costs memory until the endpoint ends, and nothing else.
const refusalsMax = 64

// refuse remembers a chunk that is refused.
func (ep *Endpoint) refuse(h *frag.Header) {
	ep.forgetRefusals()
	for i := range ep.refusals {
		if ep.refusals[i].seq == h.Seq {
			return
		}
	}
	if len(ep.refusals) == refusalsMax {
		ep.refusals = ep.refusals[:copy(ep.refusals, ep.refusals[1:])]
	}
	ep.refusals = append(ep.refusals, refusal{seq: h.Seq, fragID: h.FragID})
}

// voided throws away what has arrived of the fragment that the Void's number belonged to.
func (ep *Endpoint) voided(n seq.Num) {
	for i := range ep.refusals {
		if r := &ep.refusals[i]; r.seq == n && !r.failed {
			r.failed = true
			ep.asm.Forget(r.fragID)
		}
	}
}

// failedThere says whether the fragment is known to have failed at its sender.
func (ep *Endpoint) failedThere(fragID uint32) bool {
	if len(ep.refusals) == 0 {
		return false
	}
	ep.forgetRefusals()
	for i := range ep.refusals {
		if ep.refusals[i].fragID == fragID && ep.refusals[i].failed {
			return true
		}
	}
	return false
}

// forgetRefusals removes those that lie so far back that no packet of their fragments can come any
// more: the sender stopped sending them when it heard of the refusal, a window later at most.
func (ep *Endpoint) forgetRefusals() {
	n := 0
	for _, r := range ep.refusals {
		if !r.seq.Add(ep.rcv.Size()).Before(ep.rcv.Next()) {
			ep.refusals[n] = r
			n++
		}
	}
	ep.refusals = ep.refusals[:n]
}
