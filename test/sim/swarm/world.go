package swarm

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
	"gobtl/test/sim/attacker"
	"gobtl/test/sim/cluster"
)

// Options are the settings of a run besides its seed.
type Options struct {
	// Profile is the recovery profile of all modules, and "" draws one for each.
	Profile string
	// Reliable makes the network of every run reliable and ordered.
	Reliable bool
	// Without names faults, incidents and attacks that are left out, to find the relevant ones.
	Without []string
	// Observe is called with every event of the network, and Note with every action of an
	// application and every report to an application.
	Observe func(nw *sim.Network, e *sim.Event)
	Note    func(at mono.Time, node, text string)
	// Life is called with the incarnation number and a readable name of each module.
	Life func(incarnation uint64, name string)
	// PacketsMax is the number of packets after which the workload ends, and 0 means the number of
	// the plan.
	PacketsMax uint64
	// Lie falsifies the reports to the judge, to prove that the judge detects errors.
	Lie Lie
	// Limit ends a run after this number of network events, and 0 means 100 million.
	Limit uint64
}

func (o *Options) without(name string) bool {
	for _, w := range o.Without {
		if w == name {
			return true
		}
	}
	return false
}

// world is a run.
type world struct {
	plan  *Plan
	opts  *Options
	d     draw // the applications' decisions
	net   *cluster.Cluster
	hosts []*host

	attackers []*attacker.Attacker
	taint     [][]bool // by node: nothing is claimed between these two

	ledger  ledger
	byTag   map[uint64]*end
	byInc   map[uint64]*life
	heard   map[heardKey]mono.Time // when the latest whole packet was delivered
	acked   map[heardKey]ackedAt
	wraps   wraps
	proofs  proofs
	numbers numbers
	packs   packs

	phase    int
	packets  uint64
	flushes  int                // to be called yet
	lent     map[int]lentMemory // registered memory under way, by message
	onDoneFn func(*btl.Fragment, error)
	err      error
	res      Result
}

// Run runs the cluster of a seed.
func Run(seed uint64, opts Options) (res Result) {
	w := &world{
		plan: NewPlan(seed, opts), opts: &opts, d: newDraw(seed, 0xA99),
		byTag: map[uint64]*end{}, byInc: map[uint64]*life{}, heard: map[heardKey]mono.Time{},
		acked: map[heardKey]ackedAt{},
	}
	w.lent, w.onDoneFn = map[int]lentMemory{}, w.onDone
	w.res.Seed = seed
	defer func() {
		if r := recover(); r != nil {
			w.fail("panic: %v\n%s", r, debug.Stack())
		}
		w.finish()
		res = w.res
	}()
	if err := w.build(); err != nil {
		w.fail("building the cluster: %w", err)
		return
	}
	w.run()
	return
}

// fail records the first violation.
func (w *world) fail(format string, args ...any) {
	if w.err != nil {
		return
	}
	at := mono.Time(0)
	if w.net != nil {
		at = w.net.Now()
	}
	w.err = fmt.Errorf("at %v: %w", time.Duration(at), fmt.Errorf(format, args...))
	if w.opts.Note != nil {
		w.opts.Note(at, "", "VIOLATION: "+w.err.Error())
	}
}

func (w *world) note(h *host, format string, args ...any) {
	if w.opts.Note != nil {
		w.opts.Note(w.net.Now(), h.node.Name(), fmt.Sprintf(format, args...))
	}
}

func (w *world) build() error {
	p := w.plan
	cfg := p.Net
	cfg.Observe = w.observe
	nw, err := cluster.New(cfg)
	if err != nil {
		return err
	}
	w.net = nw
	if nw.StepsMax = w.opts.Limit; nw.StepsMax == 0 {
		nw.StepsMax = 100_000_000
	}
	for i := range p.Nodes {
		w.hosts = append(w.hosts, &host{w: w, plan: &p.Nodes[i], index: i, node: nw.Add(nodeName(i))})
	}
	w.taint = make([][]bool, len(w.hosts))
	for i := range w.taint {
		w.taint[i] = make([]bool, len(w.hosts))
	}
	w.setPaths(p.Paths)
	for i, h := range w.hosts {
		for j := range w.hosts {
			if path := &p.Paths[i][j]; path.BitFlip > 0 && !path.Checksum {
				w.taint[i][j], w.taint[j][i] = true, true
			}
		}
		h.node.SetFaults(h.plan.Faults)
		h.node.SetPace(h.plan.Pace)
		h.share()
		if err := h.open(); err != nil {
			return err
		}
	}
	for i := range p.Attackers {
		w.attack(i, &p.Attackers[i])
	}
	for i := range p.Flows {
		f := &flow{w: w, plan: &p.Flows[i], number: i}
		f.tickFn = f.tick
		nw.After(f.plan.Start+1, f.tickFn)
	}
	for i := range p.Incidents {
		in := &p.Incidents[i]
		nw.After(in.At+1, func() { w.happen(in) })
	}
	nw.After(p.T1, w.heal)
	return nil
}

func nodeName(i int) string { return string(rune('a' + i)) }

func (w *world) setPaths(paths [][]sim.Path) {
	for i, h := range w.hosts {
		for j, to := range w.hosts {
			w.net.SetPath(h.node.Node, to.node.Node, paths[i][j])
		}
	}
}

func (w *world) attack(i int, p *AttackPlan) {
	node := w.net.Node("x" + nodeName(i))
	var targets []*sim.Node
	var regions []attacker.Region
	for j, h := range w.hosts {
		if p.Target >= 0 && p.Target != j {
			continue
		}
		targets = append(targets, h.node.Node)
		for _, r := range h.life.regions {
			size := len(r.mem)
			if r.rights&btl.RemoteWrite == 0 {
				size = 0
			}
			regions = append(regions, attacker.Region{
				Node: j, Handle: uint64(r.r.Handle()), SizeBytes: uint64(size),
			})
		}
	}
	w.attackers = append(w.attackers, attacker.New(attacker.Config{
		Net: w.net.Network, Node: node, Seed: w.plan.Seed + uint64(i), Mode: p.Mode, Targets: targets,
		Rate: p.Rate, Until: mono.Time(w.plan.T1), Regions: regions, Reliable: w.plan.Net.Reliable,
	}))
}

// tainted reports whether the connections between nodes i and j are tainted, where j is -1 if the
// peer is not a module.
func (w *world) tainted(i, j int) bool {
	if j < 0 {
		return w.anyTaint(i)
	}
	if w.taint[i][j] {
		return true
	}
	for _, a := range w.attackers {
		if a.Tainted(i, j) {
			return true
		}
	}
	return false
}

// anyTaint reports whether node i may have a tainted connection.
func (w *world) anyTaint(i int) bool {
	for j := range w.hosts {
		if w.tainted(i, j) {
			return true
		}
	}
	for _, a := range w.attackers {
		if a.Mode() == attacker.Insider {
			return true
		}
	}
	return false
}

// The constants below are the phases.
const (
	phaseFaults = iota
	phaseDrain
	phaseClose
	phaseOver
)

// drainLook is the interval between checks for the end of a phase.
const drainLook = 2 * time.Millisecond

// run steps through the three phases.
func (w *world) run() {
	over := func() bool { return w.phase == phaseOver || w.err != nil }
	if err := w.net.Until(mono.Never, over); err != nil {
		w.fail("in phase %d: %w: %s", w.phase+1, err, w.state())
	} else if w.err == nil {
		w.judgeEnd()
	}
}

// heal ends phase 1.
func (w *world) heal() {
	w.phase = phaseDrain
	if w.opts.Note != nil {
		w.opts.Note(w.net.Now(), "", "PHASE 2: the network is healed, nothing new is sent")
	}
	w.setPaths(w.plan.Calm)
	for _, h := range w.hosts {
		h.node.SetFaults(sim.NodeFaults{})
		h.node.SetPace(0)
		h.node.Kick()
	}
	w.res.Drained = -1
	started := w.net.Now()
	var look func()
	look = func() {
		if w.phase != phaseDrain {
			return
		}
		why := errors.Join(w.lastWords(w.net.Now().Sub(started)), w.busy())
		if why == nil {
			w.res.Drained = w.net.Now().Sub(started)
			w.res.Share = float64(w.res.Drained) / float64(w.plan.DrainLimit())
			w.closeAll()
			return
		}
		if took := w.net.Now().Sub(started); took > w.plan.DrainLimit() {
			w.fail("not drained %v after the network was healed: %w; %s", took, why, w.state())
			return
		}
		w.net.After(drainLook, look)
	}
	w.net.After(drainLook, look)
}

// lastWords makes every connected endpoint send one more message, because an endpoint without sends
// would not detect that its peer has gone, and returns an endpoint that has yet to send. The method
// lastWords aborts tainted endpoints, because after a forged ACK the two sides may never agree.
func (w *world) lastWords(since time.Duration) (err error) {
	for _, h := range w.hosts {
		if h.life == nil || h.life.closing {
			continue
		}
		for _, e := range h.life.ends {
			if e.over || e.closing || !e.connected {
				continue
			}
			if e.lastWord && !e.lastWord2 && e.deserted() {
				e.lastWord, e.lastWord2 = false, true // it was still heard, and nothing after it would be
			}
			switch {
			case e.tainted() && (e.lastWord && e.open == 0 || since > w.plan.DrainLimit()/2):
				e.abort()
				h.node.Kick()
			case !e.lastWord:
				if e.lastWord = e.do(wayAlloc, 32); !e.lastWord && !e.over {
					err = fmt.Errorf("%s finds no room for another message", e)
				}
				h.node.Kick()
			}
		}
	}
	return err
}

// The method busy returns the reason why phase 2 has not ended.
func (w *world) busy() error {
	if w.ledger.open > 0 {
		return fmt.Errorf("%d accepted sends have not ended", w.ledger.open)
	}
	if w.flushes > 0 {
		return fmt.Errorf("%d flushes have not been called", w.flushes)
	}
	for _, h := range w.hosts {
		if h.life == nil && h.toOpen > 0 {
			return fmt.Errorf("node %s is still to be opened", h.node.Name())
		}
	}
	if err := w.net.CheckIdle(); err != nil {
		return fmt.Errorf("not idle: node %w", err)
	}
	return nil
}

// closeAll begins phase 3.
func (w *world) closeAll() {
	w.phase = phaseClose
	w.ledger.judgeDrained(w)
	started := w.net.Now()
	// A Hello that was delayed for up to two seconds may open a half-open endpoint meanwhile.
	const late = 3 * time.Second
	limit := time.Duration(0)
	for i, h := range w.hosts {
		c := &h.plan.Config
		limit = max(limit, 4*c.CloseTimeout+c.HandshakeTimeout+late)
		l := h.life
		if l == nil {
			continue
		}
		w.net.After(w.d.dur(time.Microsecond, 20*time.Millisecond), func() { l.closeInOrder() })
		limit += 100 * w.plan.Calm[i][0].Delay
	}
	var look func()
	look = func() {
		why := w.open()
		if why == nil {
			w.shut()
			return
		}
		if took := w.net.Now().Sub(started); took > limit {
			w.fail("not closed %v after it began: %w; %s", took, why, w.state())
			return
		}
		w.net.After(drainLook, look)
	}
	w.net.After(30*time.Millisecond, look)
}

// open returns the reason why phase 3 has not ended.
func (w *world) open() error {
	for _, h := range w.hosts {
		if l := h.life; l != nil {
			if err := l.notClosed(); err != nil {
				return fmt.Errorf("node %s: %w", h.node.Name(), err)
			}
		}
	}
	return w.busy()
}

// shut closes the modules.
func (w *world) shut() {
	w.phase = phaseOver
	for _, h := range w.hosts {
		if h.life != nil {
			h.life.shut()
		}
	}
}

// judgeEnd performs the checks at the end of a run.
func (w *world) judgeEnd() {
	w.lieMemory()
	w.ledger.judgeEnd(w)
	for _, h := range w.hosts {
		for _, l := range h.lives {
			l.judgeEnd()
		}
	}
	if v := w.net.Violations(); len(v) > 0 {
		w.fail("misuse of the fabric: %w", errors.Join(v...))
	}
}

// finish fills in the result.
func (w *world) finish() {
	r := &w.res
	r.Err = w.err
	if w.net == nil {
		return
	}
	r.Steps = w.net.Steps
	r.Hash, r.Counts, r.Virtual = w.net.Hash(), w.net.Counts(), time.Duration(w.net.Now())
	r.Packets = r.Counts[sim.KindSent] + r.Counts[sim.KindInjected] + r.Counts[sim.KindDuplicated] +
		r.Counts[sim.KindJunk] + r.Counts[sim.KindReplayed]
	for _, h := range w.hosts {
		for _, l := range h.lives {
			s := l.mod.Stats()
			for _, c := range counters {
				r.Stats[c] += s.Get(c)
			}
		}
		r.Restarts += max(0, len(h.lives)-1)
	}
	r.Messages, r.Failed = uint64(len(w.ledger.msgs)), w.ledger.failed
	for _, h := range w.hosts {
		for _, l := range h.lives {
			for _, e := range l.ends {
				if e.tainted() {
					r.Unjudged += uint64(len(e.msgs))
				}
			}
		}
	}
	r.Wraps, r.Packs = w.wraps.count, w.packs.count
	for _, a := range w.attackers {
		r.Attacks[a.Mode()] += a.Sent()
		for act, n := range a.ByKind() {
			if r.Acts == nil {
				r.Acts = map[string]uint64{}
			}
			r.Acts[act] += n
		}
	}
}

var counters = btl.Counters()

// The method state describes the cluster for a report.
func (w *world) state() string {
	s := ""
	if w.ledger.open > 0 {
		s = "the oldest send under way is " + w.ledger.firstOpen() + " "
	}
	for _, h := range w.hosts {
		if h.life == nil {
			s += fmt.Sprintf("[%s down]", h.node.Name())
			continue
		}
		s += fmt.Sprintf("[%s life %d:", h.node.Name(), h.life.number)
		for _, e := range h.life.ends {
			if !e.over {
				packets, frags := e.ep.Outstanding()
				s += fmt.Sprintf(" %s>%s %d+%d", e, e.peerName(), packets, frags)
				if !e.ep.Connected() {
					s += " connecting"
				}
				if e.closing {
					s += " closing"
				}
				s += ";"
			}
		}
		if next := h.life.mod.Deadline(); next != btl.Never {
			s += fmt.Sprintf(" deadline in %v", next.Sub(w.net.Now()))
		}
		s += "]"
	}
	return s
}
