package swarm

import (
	"slices"

	"gobtl/test/sim/attacker"
)

// Some networks are reliable and ordered by themselves (sim.Config.Reliable), so that modules leave
// the recovery to them. They have no faults but delays, nodes that are slow, paused, killed and
// restarted, and fabrics that are busy for a while. Attackers are there too, but for the one that
// sends copies of what others have sent: that such a network makes none is what modules rely on.
// Some modules there do not rely on the network: then a pair of them must agree on the recovery of
// their own.

// reliableOdds is how often a network is reliable, mixedOdds how often some modules there do not
// rely on it, and ownOdds how many these are.
const (
	reliableOdds = 0.15
	mixedOdds    = 0.3
	ownOdds      = 0.4
)

// unreliable names what no reliable network has.
var unreliable = []string{
	"loss", "burst", "duplicate", "reorder", "bitflip", "truncate", "junk", "replay", "senderror",
	"recverror", "queue", "cut", "cut both ways", "isolate", "turn", "swallow",
	attacker.Replayer.String(),
}

// drawReliable decides whether the network is reliable, and leaves out what it does not have.
func drawReliable(seed uint64, opts *Options) bool {
	d := newDraw(seed, 0x4E11)
	if !d.chance(reliableOdds) && !opts.Reliable || opts.without("reliable") {
		return false
	}
	opts.Without = append(slices.Clip(opts.Without), unreliable...)
	return true
}

// drawOwnReliability draws which modules see to it themselves that nothing is lost.
func (p *Plan) drawOwnReliability() {
	d := newDraw(p.Seed, 0x4E12)
	if !p.Net.Reliable || !d.chance(mixedOdds) {
		return
	}
	for i := range p.Nodes {
		if d.chance(ownOdds) {
			p.Nodes[i].Config.Reliability = "own"
		}
	}
}
