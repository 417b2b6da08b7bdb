package mpi_test

import (
	"math/rand/v2"
	"time"

	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// trouble is what every second run of the simulator suffers beside loss and reordering: all that
// networks and processes do that nobody dies of.
type trouble struct {
	random *rand.Rand
	path   sim.Path
	due    mono.Time // of the next incident
	mend   func()    // ends the one that goes on
}

// patience is for how long a rank of such a run may say nothing. Incidents are shorter, but several
// of them may follow each other, and each may meet the few retransmissions that are left.
const patience = 20 * time.Second

// incidentMost is for how long a rank stands still, or cannot be reached, at the most.
const incidentMost = 150 * time.Millisecond

// damages are what a path does, each in some runs.
var damages = []func(random *rand.Rand, p *sim.Path){
	func(random *rand.Rand, p *sim.Path) {
		p.BurstStart, p.BurstEnd, p.BurstLoss = random.Float64()*.01, .1+random.Float64()*.4, .9
	},
	func(random *rand.Rand, p *sim.Path) { p.BitFlip, p.Checksum = random.Float64()*.05, true },
	func(random *rand.Rand, p *sim.Path) { p.Truncate = random.Float64() * .03 },
	func(random *rand.Rand, p *sim.Path) { p.Junk = random.Float64() * .03 },
	func(random *rand.Rand, p *sim.Path) { p.Replay = random.Float64() * .05 },
	func(random *rand.Rand, p *sim.Path) {
		p.BytesPerSecond, p.QueueBytes = 20_000_000+random.IntN(200_000_000), 100_000
	},
}

// worsen begins the trouble of a run.
func (s *stage) worsen() {
	r := rand.New(rand.NewPCG(s.seed, 12))
	t := &trouble{random: r, path: sim.Path{Delay: 20 * time.Microsecond, Loss: r.Float64() * .02}}
	for _, damage := range damages {
		if r.IntN(3) == 0 {
			damage(r, &t.path)
		}
	}
	for _, a := range s.ranks {
		for _, b := range s.ranks {
			s.SetPath(a.Node, b.Node, t.path)
		}
		a.SetFaults(sim.NodeFaults{
			PostAgain: r.Float64() * .02, AgainPosts: 5, SendError: r.Float64() * .005,
			RecvError: r.Float64() * .005, LateSends: time.Duration(r.IntN(2)) * 30 * time.Microsecond,
			QueueDatagrams: []int{0, 40}[r.IntN(2)],
		})
		if r.IntN(4) == 0 {
			a.SetPace(time.Duration(r.IntN(50)) * time.Microsecond)
		}
	}
	s.trouble = t
	t.plan(s.Now())
}

// plan has the next incident happen at some time.
func (t *trouble) plan(now mono.Time) {
	t.due = now.Add(time.Duration(t.random.Int64N(int64(20 * time.Millisecond))))
}

// suffer has an incident begin, or end, when it is time.
func (s *stage) suffer() {
	t := s.trouble
	if t == nil || s.Now() < t.due {
		return
	}
	if t.mend != nil {
		t.mend()
		t.mend = nil
		t.plan(s.Now())
		return
	}
	a, b := s.ranks[t.random.IntN(len(s.ranks))], s.ranks[t.random.IntN(len(s.ranks))]
	length := time.Duration(t.random.Int64N(int64(incidentMost)))
	t.due = s.Now().Add(length)
	switch {
	case a.mod == nil || b.mod == nil:
	case a == b:
		a.Pause(length)
	default: // Nothing gets from one to the other, or back.
		set := func(p sim.Path) {
			s.SetPath(a.Node, b.Node, p)
			s.SetPath(b.Node, a.Node, p)
		}
		cut := t.path
		cut.Cut = true
		set(cut)
		t.mend = func() { set(t.path) }
	}
}
