package swarm

import (
	"time"

	"gobtl/test/sim/attacker"
)

// AttackPlan is the plan of one attacker.
type AttackPlan struct {
	Mode   attacker.Mode
	Rate   time.Duration
	Target int // -1: everybody
}

func (p *Plan) drawAttackers(d draw, opts Options) {
	if !d.chance(0.3) {
		return
	}
	for range d.between(1, 2) {
		a := AttackPlan{
			Mode: attacker.Mode(d.IntN(int(attacker.NumModes))), Target: -1,
			Rate: p.T1 / time.Duration(d.size(50, 2000)),
		}
		if d.chance(0.4) {
			a.Target = d.IntN(len(p.Nodes))
		}
		if !opts.without("attack") && !opts.without(a.Mode.String()) {
			p.Attackers = append(p.Attackers, a)
		}
	}
}
