package swarm

import (
	"slices"

	"gobtl/test/sim/attacker"
)

// On a reliable network (sim.Config.Reliable), modules leave the recovery to the network. A
// reliable network has no faults except delays, slow, paused, killed and restarted nodes, and
// fabrics that are busy for a while. The attackers of a reliable network do not replay packets,
// because modules rely on a network without copies. Some modules use their own recovery, and each
// pair of modules must agree.

// reliableOdds is the probability of a reliable network, mixedOdds that of some modules with their
// own recovery, and ownOdds that of each of these modules.
const (
	reliableOdds = 0.15
	mixedOdds    = 0.3
	ownOdds      = 0.4
)

// unreliable lists the faults that no reliable network has.
var unreliable = []string{
	"loss", "burst", "duplicate", "reorder", "bitflip", "truncate", "junk", "replay", "senderror",
	"recverror", "queue", "cut", "cut both ways", "isolate", "turn", "swallow",
	attacker.Replayer.String(),
}

// drawReliable decides whether the network is reliable, and removes the faults that it does not
// have.
func drawReliable(seed uint64, opts *Options) bool {
	d := newDraw(seed, 0x4E11)
	if !d.chance(reliableOdds) && !opts.Reliable || opts.without("reliable") {
		return false
	}
	opts.Without = append(slices.Clip(opts.Without), unreliable...)
	return true
}

// drawOwnReliability draws the modules that use their own recovery.
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
