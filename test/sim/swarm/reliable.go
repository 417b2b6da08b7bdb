package swarm

import "slices"

// On request (Options.Reliable) the networks are reliable and ordered by themselves
// (sim.Config.Reliable), so that modules leave the recovery to them. They have no faults but
// delays, nodes that are slow, paused, killed and restarted, and fabrics that are busy for a while.
// Some modules there do not rely on the network: then a pair of them must agree on the recovery of
// their own.

// mixedOdds is how often some modules do not rely on the network, and ownOdds how many these are.
const (
	mixedOdds = 0.3
	ownOdds   = 0.4
)

// unreliable names what no reliable network has.
var unreliable = []string{
	"loss", "burst", "duplicate", "reorder", "bitflip", "truncate", "junk", "replay", "senderror",
	"recverror", "queue", "cut", "cut both ways", "isolate", "turn", "swallow", "attack",
}

// leaveOutUnreliable leaves out what the network does not have if it is to be reliable.
func leaveOutUnreliable(opts *Options) {
	if opts.Reliable {
		opts.Without = append(slices.Clip(opts.Without), unreliable...)
	}
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
