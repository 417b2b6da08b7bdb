package swarm

import (
	"time"

	"gobtl/reliability"
)

// profileOdds holds the probability of each recovery profile for a node. The two endpoints of a
// connection may have different profiles.
var profileOdds = []struct {
	name string
	odds float64
}{
	{"adaptive", 0.5}, {"usnic", 0.35}, {"lossless", 0.15},
}

// uniformOdds is the probability that all nodes have the profile of the first one.
const uniformOdds = 0.4

// drawProfiles draws the recovery profile of each node, unless the options name it, and the times
// without polls that the nodes announce. On a reliable network most nodes keep the default profile.
func (p *Plan) drawProfiles(opts Options) {
	d := newDraw(p.Seed, 0xADA7)
	uniform := d.chance(uniformOdds)
	for i := range p.Nodes {
		c := &p.Nodes[i].Config
		name, kept := drawProfile(d), !d.chance(mixedOdds)
		switch {
		case opts.Profile != "" || p.Net.Reliable && kept:
		case uniform && i > 0:
			c.Profile = p.Nodes[0].Config.Profile
		default:
			c.Profile = name
		}
		drawAdaptive(d, &c.Rules)
	}
	p.drawAways()
	p.drawWithholding()
}

// drawWithholding draws how often nodes test their peers for optimistic ACKs, which is mostly more
// often than by default, because runs are short.
func (p *Plan) drawWithholding() {
	d := newDraw(p.Seed, 0x717E)
	for i := range p.Nodes {
		if d.chance(0.5) {
			p.Nodes[i].Config.Rules.WithholdEvery = d.size(16, 1024)
		}
	}
}

func drawProfile(d draw) string {
	at := d.Float64()
	for _, o := range profileOdds {
		if at -= o.odds; at < 0 {
			return o.name
		}
	}
	return profileOdds[0].name
}

func drawAdaptive(d draw, r *reliability.Rules) {
	if d.chance(0.3) {
		r.ResendTimeoutMin = d.dur(10*time.Microsecond, r.ResendTimeoutMax)
		r.ProbeTimeoutMin = d.dur(time.Microsecond, r.ResendTimeoutMin)
	}
	if d.chance(0.2) {
		r.Congestion = reliability.CongestionFixed
	}
	if d.chance(0.4) {
		r.InitialWindow = d.size(2, 512)
	}
	if d.chance(0.4) {
		r.TargetDelay = d.dur(time.Microsecond, 20*time.Millisecond)
	}
}
