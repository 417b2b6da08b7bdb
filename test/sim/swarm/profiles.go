package swarm

import (
	"time"

	"gobtl/reliability"
)

// profileOdds is how often a node has which recovery profile. Both ends of a connection recover by
// their own rules, so the nodes of a run need not agree.
var profileOdds = []struct {
	name string
	odds float64
}{
	{"adaptive", 0.5}, {"usnic", 0.35}, {"lossless", 0.15},
}

// uniformOdds is how often all nodes have the profile of the first one.
const uniformOdds = 0.4

// drawProfiles draws the recovery profile of each node, if the options do not name it, and the
// numbers of the adaptive one. On a reliable network most keep the default. Behind that it draws
// what their processes ask of others.
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

// drawWithholding draws how often the nodes try whether their peers tell the truth: many far more
// often than they do by default, for a run is short.
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
