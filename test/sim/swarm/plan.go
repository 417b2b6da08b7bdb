package swarm

import (
	"math"
	"math/rand/v2"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/internal/limits"
)

// Plan holds everything that a seed decides before a run begins.
type Plan struct {
	Seed  uint64
	Net   sim.Config
	Nodes []NodePlan
	// Paths are the paths of phase 1 by sending and receiving node, and Calm is the path of the
	// later phases.
	Paths     [][]sim.Path
	Calm      [][]sim.Path
	Flows     []FlowPlan
	Incidents []Incident
	Attackers []AttackPlan
	// The fields below are the probabilities of actions of an application in a callback.
	Reply, CloseIn, AbortIn, ConnectIn, SendIn, Reconnect, DeafIn float64
	// T1 is the end of the phase of faults, and Budget is the number of packets after which the
	// workload ends earlier.
	T1     time.Duration
	Budget uint64

	later []btl.Config // of lives that are other programs than the first one of their node
}

// NodePlan is the plan of one node.
type NodePlan struct {
	Config btl.Config
	Limits limits.Limits
	Faults sim.NodeFaults
	Pace   time.Duration
	Slices SlicePlan
	// Requests says how the application answers connection requests.
	Requests RequestPlan
	// Drain says that the node's last module ends by Drain, instead of closing each endpoint.
	Drain bool
}

// FlowPlan describes an application of a node, which connects to another node and sends bursts of
// messages.
type FlowPlan struct {
	Node, Peer int
	Start, Gap time.Duration
	Burst      int
	SizeMax    int
	// Small is the probability that all messages of a burst have at most SmallMax bytes.
	Small    float64
	SmallMax int
	ways     weights
	Wander   float64 // probability to send on any of the node's connections instead
}

// Incident is an event that affects a node, or the path between two nodes, at a given time.
type Incident struct {
	At, For    time.Duration
	Kind       IncidentKind
	Node, Peer int
	path       sim.Path
}

// IncidentKind is the kind of an incident.
type IncidentKind uint8

// The constants below are the kinds of incidents.
const (
	Pause    IncidentKind = iota // the process does not call Progress
	Pace                         // it calls Progress rarely
	Crash                        // it dies and comes back after For; never, if For is negative
	Reopen                       // it closes its module and opens another one
	Cut                          // nothing gets from Node to Peer
	CutBoth                      // nor back
	Isolate                      // nothing gets from or to Node
	Turn                         // the path from Node to Peer becomes another one
	Meet                         // Node and Peer connect to each other at the same time
	Deafen                       // Node removes the handler of a tag for a while
	Withdraw                     // Node closes a region and exposes another one
	Swallow                      // Node's receive queue shrinks for a while
	numIncidents
)

var incidentNames = [numIncidents]string{
	"pause", "pace", "crash", "reopen", "cut", "cut both ways", "isolate", "turn", "meet", "deafen",
	"withdraw", "swallow",
}

// String returns the incident's name.
func (k IncidentKind) String() string { return incidentNames[k] }

// draw is a source of random decisions.
type draw struct{ *rand.Rand }

func newDraw(seed, stream uint64) draw { return draw{rand.New(rand.NewPCG(seed, stream))} }

// chance returns true with probability p.
func (d draw) chance(p float64) bool { return d.Float64() < p }

// The method between returns a number from lo to hi.
func (d draw) between(lo, hi int) int { return lo + d.IntN(hi-lo+1) }

// The method size returns a number from lo to hi, where each power of two is equally likely.
func (d draw) size(lo, hi int) int {
	return min(hi, int(math.Round(d.scale(float64(lo), float64(hi)))))
}

func (d draw) scale(lo, hi float64) float64 {
	return lo * math.Exp(d.Float64()*math.Log(hi/lo))
}

func (d draw) dur(lo, hi time.Duration) time.Duration {
	return time.Duration(d.scale(float64(lo), float64(hi)))
}

func (d draw) pow2(lo, hi int) int { return 1 << d.between(lo, hi) }

// NewPlan draws the plan of a seed.
func NewPlan(seed uint64, opts Options) *Plan {
	d := newDraw(seed, 0x91A5)
	p := &Plan{Seed: seed}
	nodes := 2
	for nodes < 6 && d.chance(0.5) {
		nodes++
	}
	p.T1 = d.dur(60*time.Millisecond, 2500*time.Millisecond)
	p.Budget = uint64(d.size(4000, 30_000))
	if opts.PacketsMax > 0 {
		p.Budget = min(p.Budget, opts.PacketsMax)
	}
	if d.chance(quietOdds) { // nothing is lost: then every handshake must succeed, and no peer be dead
		opts.Without = append(opts.Without[:len(opts.Without):len(opts.Without)], quietPlan...)
	}
	reliable := drawReliable(seed, &opts)
	p.drawNet(d, seed)
	p.Net.Reliable = reliable
	for range nodes {
		p.Nodes = append(p.Nodes, p.drawNode(d, opts))
	}
	p.drawPaths(d, opts)
	p.drawNodeFaults(d, opts)
	p.drawFlows(d)
	p.drawHabits(d)
	p.drawIncidents(d, opts)
	p.drawAttackers(d, opts)
	d = newDraw(seed, 0x9AC4)
	p.drawPacks(d, opts)
	p.Net.FreeRegions, p.Net.NoLanding = d.chance(0.5), d.chance(0.5)
	if d.chance(0.4) {
		p.Net.PollAhead = d.size(1, 64)
	}
	p.drawProfiles(opts)
	p.drawOwnReliability()
	p.drawSlices(opts)
	p.drawRequests(opts)
	return p
}

// quietOdds is the probability of a plan without any fault that keeps packets from arriving.
const quietOdds = 0.2

var quietPlan = []string{
	"bandwidth", "loss", "burst", "bitflip", "truncate", "again", "senderror", "recverror", "late",
	"queue", "pace", "slices", "pause", "crash", "reopen", "cut", "cut both ways", "isolate", "turn",
	"swallow", "attack", "refused", "moved",
}

func (p *Plan) drawNet(d draw, seed uint64) {
	p.Net = sim.Config{Seed: seed, MTUBytes: 1472, PassCost: time.Microsecond}
	if d.chance(0.4) {
		p.Net.MTUBytes = d.size(512, 9000)
	}
	switch d.IntN(4) {
	case 0:
		p.Net.InjectBytes = -1
	case 1:
		p.Net.InjectBytes = d.size(16, p.Net.MTUBytes)
	}
	if d.chance(0.3) {
		p.Net.TxDepth = d.size(4, 512)
	}
	if d.chance(0.4) {
		p.Net.QueueDatagrams = d.size(16, 1024)
	}
	p.Net.NoSource = seed%3 == 0
	p.Net.NoGather = d.chance(0.3)
	p.Net.PassCost = d.dur(time.Microsecond, 20*time.Microsecond)
}

// drawNode draws a node's configuration.
func (p *Plan) drawNode(d draw, opts Options) NodePlan {
	c := btl.Config{Profile: opts.Profile}
	var l limits.Limits
	maybe := func(odds float64, set func()) {
		if d.chance(odds) {
			set()
		}
	}
	r := &c.Rules
	r.WindowPackets = d.pow2(4, 12)
	r.ResendTimeout = d.dur(2*time.Millisecond, 150*time.Millisecond)
	r.ResendTimeoutMax = time.Duration(float64(r.ResendTimeout) * d.scale(1, 16))
	maybe(0.5, func() {
		r.AckDelay = min(d.dur(time.Microsecond, 10*time.Millisecond), r.ResendTimeout/2)
	})
	maybe(0.5, func() { r.AckEvery = d.size(1, 256) })
	maybe(0.3, func() { r.DupAckHold = d.dur(10*time.Microsecond, 20*time.Millisecond) })
	maybe(0.5, func() { r.ResendsPerPass = d.size(1, 64) })

	maybe(0.3, func() { c.MTUBytes = d.size(512, p.Net.MTUBytes) })
	maybe(0.4, func() { c.TinyBytes = d.size(256, 512) })
	c.SendBuffers = d.size(64, 200)
	maybe(0.1, func() { c.SendBuffers = d.size(64, 1024) })
	c.RecvDepth = d.size(16, 200)
	maybe(0.1, func() { c.RecvDepth = d.size(16, 1024) })
	// The values for kept messages are derived from other draws, so that the later draws of old seeds
	// do not change.
	c.KeptPackets, l.KeptBytesMax = c.RecvDepth%7-1, 1<<(c.SendBuffers%20)
	maybe(0.3, func() { c.TxDepth = d.size(4, 256) })
	c.FragmentsMax = d.size(16, 512)
	c.FragmentBytesMax = uint32(d.size(1<<10, 1<<20))
	c.ReassemblyBytesMax = int64(d.scale(float64(c.FragmentBytesMax), 16<<20))
	maybe(0.5, func() { l.ReassemblyKeepBytes = int64(d.scale(1, 1<<20)) })
	c.PeersMax, l.HalfOpenMax = peersEnough, halfOpenEnough
	maybe(0.2, func() { l.HalfOpenMax = d.size(4, 64) })
	maybe(0.1, func() { c.PeersMax = d.between(2, 8) })
	c.RegionsMax = 32
	maybe(0.5, func() { d.between(1, 8) }) // so that the later draws of known seeds stay
	c.HandshakeTimeout = d.dur(200*time.Millisecond, 3*time.Second)
	c.PeerTimeout = d.dur(150*time.Millisecond, 5*time.Second)
	maybe(0.3, func() { c.KeepAlive = d.dur(30*time.Millisecond, time.Second) })
	c.CloseTimeout = d.dur(50*time.Millisecond, time.Second)
	maybe(0.3, func() { l.QuantumBytes = d.size(1, 64<<10) })
	maybe(0.3, func() { l.PassPackets = d.size(1, 128) })
	maybe(0.3, func() { l.PollBatch = d.size(1, 256) })
	maybe(0.3, func() { l.IdlePollEvery = d.between(1, 16) })
	return NodePlan{Config: c, Limits: l, Drain: d.chance(0.5)}
}

// fault is a fault that a run may have.
type fault struct {
	name string
	odds float64
	path func(d draw, p *sim.Path)
}

// pathFaults are the faults of paths, with the names of Options.Without.
var pathFaults = []fault{
	{"jitter", 0.6, func(d draw, p *sim.Path) {
		p.Jitter = d.dur(time.Microsecond, 3*time.Millisecond)
	}},
	{"bandwidth", 0.3, func(d draw, p *sim.Path) {
		p.BytesPerSecond = d.size(2_000_000, 2_000_000_000)
		if d.chance(0.6) {
			p.QueueBytes = d.size(4_000, 1_000_000)
		}
	}},
	{"loss", 0.5, func(d draw, p *sim.Path) { p.Loss = d.scale(0.001, 0.25) }},
	{"burst", 0.25, func(d draw, p *sim.Path) {
		p.BurstStart, p.BurstEnd = d.scale(0.0005, 0.02), d.scale(0.02, 0.5)
		p.BurstLoss = 0.5 + d.Float64()/2
	}},
	{"duplicate", 0.4, func(d draw, p *sim.Path) { p.Duplicate = d.scale(0.001, 0.3) }},
	{"reorder", 0.4, func(d draw, p *sim.Path) {
		p.Reorder, p.ReorderDelay = d.scale(0.002, 0.4), d.dur(5*time.Microsecond, 5*time.Millisecond)
	}},
	{"bitflip", 0.15, func(d draw, p *sim.Path) {
		p.BitFlip, p.Checksum = d.scale(0.001, 0.1), d.chance(0.6)
	}},
	{"truncate", 0.15, func(d draw, p *sim.Path) { p.Truncate = d.scale(0.001, 0.1) }},
	{"junk", 0.2, func(d draw, p *sim.Path) { p.Junk = d.scale(0.001, 0.1) }},
	{"replay", 0.25, func(d draw, p *sim.Path) { p.Replay = d.scale(0.001, 0.15) }},
}

// drawPacks draws which modules put small messages into common packets, how large these packets
// are, and which flows send bursts of small messages.
func (p *Plan) drawPacks(d draw, opts Options) {
	for i := range p.Nodes {
		p.drawPackBytes(d, &p.Nodes[i].Config, opts)
	}
	if d.chance(0.3) && !opts.without(Deafen.String()) {
		p.DeafIn = d.scale(0.001, 0.05)
	}
	for i := range p.Flows {
		f := &p.Flows[i]
		if d.chance(0.5) {
			f.Small, f.SmallMax = d.scale(0.05, 1), d.size(1, 300)
			f.Burst = min(200, f.Burst*d.size(1, 8))
		}
	}
}

// drawPackBytes draws how large the common packets are.
func (p *Plan) drawPackBytes(d draw, c *btl.Config, opts Options) {
	switch {
	case d.chance(packsOff) || opts.without("packs"):
		c.PackBytes = 1
	case d.chance(0.4):
		c.PackBytes = d.size(64, p.Net.MTUBytes)
	}
}

// packsOff is the probability that a module sends every message in packets of its own.
const packsOff = 0.2

func (p *Plan) drawPaths(d draw, opts Options) {
	base := d.dur(2*time.Microsecond, 5*time.Millisecond)
	same := d.chance(0.5)
	var have []fault
	for _, f := range pathFaults {
		if d.chance(f.odds) && !opts.without(f.name) {
			have = append(have, f)
		}
	}
	n := len(p.Nodes)
	p.Paths, p.Calm = make([][]sim.Path, n), make([][]sim.Path, n)
	for i := range n {
		p.Paths[i], p.Calm[i] = make([]sim.Path, n), make([]sim.Path, n)
		for j := range n {
			delay := base
			if !same {
				delay = time.Duration(float64(base) * d.scale(0.2, 5))
			}
			p.Calm[i][j] = sim.Path{Delay: delay}
			p.Paths[i][j] = p.drawPath(d, delay, have)
		}
	}
}

func (p *Plan) drawPath(d draw, delay time.Duration, have []fault) sim.Path {
	path := sim.Path{Delay: delay}
	for _, f := range have {
		if d.chance(0.6) {
			f.path(d, &path)
		}
	}
	return path
}

func (p *Plan) drawNodeFaults(d draw, opts Options) {
	again, sends, recvs := d.chance(0.25), d.chance(0.2), d.chance(0.2)
	late, queue, pace := d.chance(0.3), d.chance(0.2), d.chance(0.2)
	for i := range p.Nodes {
		f := &p.Nodes[i].Faults
		if d.chance(0.6) && again && !opts.without("again") {
			f.PostAgain, f.AgainPosts = d.scale(0.001, 0.1), d.size(1, 100)
		}
		if d.chance(0.6) && sends && !opts.without("senderror") {
			f.SendError = d.scale(0.001, 0.1)
		}
		if d.chance(0.6) && recvs && !opts.without("recverror") {
			f.RecvError = d.scale(0.001, 0.1)
		}
		if d.chance(0.6) && late && !opts.without("late") {
			f.LateSends = d.dur(2*time.Microsecond, 3*time.Millisecond)
		}
		if d.chance(0.6) && queue && !opts.without("queue") {
			f.QueueDatagrams = d.size(4, 64)
		}
		if d.chance(0.6) && pace && !opts.without("pace") {
			p.Nodes[i].Pace = d.dur(5*time.Microsecond, 5*time.Millisecond)
		}
	}
}

func (p *Plan) drawFlows(d draw) {
	flows := d.between(1, 2*len(p.Nodes))
	sizeMax := d.size(8, 400_000)
	for i := range flows {
		f := FlowPlan{Node: d.IntN(len(p.Nodes)), Peer: d.IntN(len(p.Nodes))}
		if i == 0 || f.Peer == f.Node && !d.chance(0.2) {
			f.Peer = (f.Node + 1 + d.IntN(len(p.Nodes)-1)) % len(p.Nodes)
		}
		if d.chance(0.3) {
			f.Start = time.Duration(d.Int64N(int64(p.T1)))
		}
		f.SizeMax = sizeMax
		if d.chance(0.5) {
			f.SizeMax = d.size(8, sizeMax+8)
		}
		f.Burst = d.size(1, 40)
		f.Gap = d.dur(20*time.Microsecond, 20*time.Millisecond)
		if i == 0 { // one is busy in every run
			f.Gap = min(f.Gap, p.T1/time.Duration(d.size(400, 4000)))
		}
		f.Wander = d.Float64() * d.Float64()
		f.ways = drawWeights(d)
		p.Flows = append(p.Flows, f)
	}
}

func (p *Plan) drawHabits(d draw) {
	some := func(odds, lo, hi float64) float64 {
		if d.chance(odds) {
			return d.scale(lo, hi)
		}
		return 0
	}
	p.Reply = some(0.6, 0.01, 0.8)
	p.CloseIn, p.AbortIn = some(0.2, 0.0005, 0.01), some(0.2, 0.0005, 0.01)
	p.ConnectIn, p.SendIn = some(0.3, 0.001, 0.05), some(0.4, 0.01, 0.5)
	p.Reconnect = some(0.7, 0.1, 1)
}

// incidentOdds holds the probability and the maximum number of each kind of incidents.
var incidentOdds = [numIncidents]struct {
	odds float64
	most int
}{
	Pause: {0.3, 6}, Pace: {0.2, 6}, Crash: {0.3, 4}, Reopen: {0.15, 3}, Cut: {0.2, 6},
	CutBoth: {0.2, 6}, Isolate: {0.15, 4}, Turn: {0.2, 10}, Meet: {0.5, 6}, Deafen: {0.15, 4},
	Withdraw: {0.3, 8}, Swallow: {0.15, 4},
}

func (p *Plan) drawIncidents(d draw, opts Options) {
	for k := range numIncidents {
		o := incidentOdds[k]
		if !d.chance(o.odds) {
			continue
		}
		for range d.between(1, o.most) {
			in := Incident{
				Kind: k, At: time.Duration(d.Int64N(int64(p.T1))), Node: d.IntN(len(p.Nodes)),
			}
			in.For = min(d.dur(p.T1/1000+1, p.T1), p.T1-in.At)
			in.Peer = (in.Node + 1 + d.IntN(len(p.Nodes)-1)) % len(p.Nodes)
			if k == Crash && d.chance(0.2) {
				in.For = -1
			}
			if k == Turn {
				in.path = p.turned(d, in.Node, in.Peer)
			}
			if !opts.without(k.String()) {
				p.Incidents = append(p.Incidents, in)
			}
		}
	}
}

// turned draws the changed properties of a path, such as smaller datagrams, a longer delay, or more
// faults.
func (p *Plan) turned(d draw, from, to int) sim.Path {
	path := p.Paths[from][to]
	switch d.IntN(3) {
	case 0:
		path.MTUBytes = d.size(64, 1400)
	case 1:
		path.Delay = d.dur(time.Microsecond, 30*time.Millisecond)
	default:
		path.Loss = d.scale(0.05, 0.9)
	}
	return path
}

// DrainLimit is the time limit of phase 2. The limit covers several rounds of retransmission
// back-off, the longest handshake, and the time-out of a dead peer, which may follow each other.
func (p *Plan) DrainLimit() time.Duration {
	var peer, shake, closing, resend, delay time.Duration
	wait := func(c *btl.Config) {
		peer, shake = max(peer, c.PeerTimeout+awayMax), max(shake, c.HandshakeTimeout)
		closing = max(closing, c.CloseTimeout)
		resend = max(resend, min(c.Rules.ResendTimeoutMax, c.PeerTimeout/4))
	}
	for i := range p.Nodes {
		wait(&p.Nodes[i].Config)
		for j := range p.Nodes {
			delay = max(delay, p.Calm[i][j].Delay)
		}
	}
	for i := range p.later {
		wait(&p.later[i])
	}
	shake += 2 * requestsWait
	return 4*peer + 2*shake + 2*closing + 20*resend + 2000*delay + 2*time.Second
}
