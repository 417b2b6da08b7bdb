package swarm

import "time"

// SlicePlan says how a node's process shares its CPU with a program that computes. The process runs
// for up to Run, and the other program for up to Away, alternately. The zero SlicePlan means that
// the process has its own CPU.
type SlicePlan struct {
	Run, Away time.Duration
}

const (
	slicesOdds = 0.3 // of a run in which some processes share their CPUs
	sliceLeast = time.Millisecond
	sliceMost  = 20 * time.Millisecond
)

// drawSlices draws the nodes whose processes share their CPUs, from a separate random source so
// that all other draws are unchanged.
func (p *Plan) drawSlices(opts Options) {
	d := newDraw(p.Seed, 0x511CE)
	if !d.chance(slicesOdds) || opts.without("slices") {
		return
	}
	for i := range p.Nodes {
		if d.chance(0.5) {
			p.Nodes[i].Slices = SlicePlan{
				Run: d.dur(100*time.Microsecond, sliceMost), Away: d.dur(sliceLeast, sliceMost),
			}
		}
	}
}

// share repeatedly takes the CPU from the node's process, until the phase of faults ends.
func (h *host) share() {
	s := h.plan.Slices
	if s.Away == 0 {
		return
	}
	d := newDraw(h.w.plan.Seed, 0x511CE0+uint64(h.index))
	var lose func()
	lose = func() {
		away := d.dur(min(sliceLeast, s.Away), s.Away)
		h.node.Pause(away)
		h.w.after(away+d.dur(s.Run/10+1, s.Run), lose)
	}
	h.w.after(d.dur(1, s.Run), lose)
}
