package conformance

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
)

// Patience with what must happen: real networks share the machine with others.
const (
	patienceReal    = 60 * time.Second
	patienceVirtual = 20 * time.Second
	// instantSteps is how many steps may be made in one instant of virtual time: a module that is busy
	// without end makes more. How long they take is the machine's business.
	instantSteps = 1 << 20
)

// lab is the modules of one scenario on one network, and the streams between them.
type lab struct {
	t       *testing.T
	fx      *fixture
	net     network
	nodes   []*node
	streams []*stream
}

func newLab(t *testing.T, fx *fixture, o opts) *lab {
	t.Helper()
	l := &lab{t: t, fx: fx, net: fx.open(t, o)}
	t.Cleanup(l.close)
	return l
}

// event is a call of a module's OnEndpoint.
type event struct {
	ep  *btl.Endpoint
	ev  btl.Event
	err error
}

// node is a station with a module and the program above it, which is a process again.
type node struct {
	l       *lab
	id      int
	at      station
	mod     *btl.Module
	wrap    func(fabric.Domain) fabric.Domain // put around the domain; may be nil
	out     []*stream
	work    func() // the program, called after each pass; may be nil
	events  []event
	passes  uint64
	err     error
	boots   int
	crashed bool
}

// add makes a station and starts a module there.
func (l *lab) add(cfg btl.Config) *node {
	l.t.Helper()
	n := &node{l: l, id: len(l.nodes), at: l.net.station(l.t)}
	l.nodes = append(l.nodes, n)
	n.boot(cfg)
	return n
}

// addAll makes several nodes of one configuration.
func (l *lab) addAll(count int, cfg btl.Config) []*node {
	l.t.Helper()
	all := make([]*node, count)
	for i := range all {
		all[i] = l.add(cfg)
	}
	return all
}

// boot starts a module at the node's station: another life of it if there was one before.
func (n *node) boot(cfg btl.Config) {
	t := n.l.t
	t.Helper()
	n.boots++
	n.crashed = false
	if cfg.Random == nil && n.l.fx.virtual { // a run must be the same each time
		cfg.Random = rand.New(rand.NewPCG(uint64(n.id), uint64(n.boots))).Uint64
	}
	dom, err := n.at.open(cfg)
	if err != nil {
		t.Fatalf("node %d: %v", n.id, err)
	}
	if n.wrap != nil {
		dom = n.wrap(dom)
	}
	if n.mod, err = btl.Open(dom, cfg); err != nil {
		t.Fatalf("node %d: %v", n.id, err)
	}
	n.events, n.out, n.err = nil, nil, nil
	n.mod.OnEndpoint(func(ep *btl.Endpoint, ev btl.Event, err error) {
		n.events = append(n.events, event{ep, ev, err})
	})
	n.handle(tagStream, n.receive)
	n.at.run(n)
}

func (n *node) handle(tag btl.Tag, h btl.Handler) {
	n.l.t.Helper()
	if err := n.mod.Handle(tag, h); err != nil {
		n.l.t.Fatal(err)
	}
}

// Progress is one pass of the module and of the program above it.
func (n *node) Progress(now btl.Time) (int, error) {
	if n.err != nil {
		return 0, n.err
	}
	got, err := n.mod.Progress(now)
	if err == nil {
		n.passes++
		for _, s := range n.out {
			s.pump()
		}
		if n.work != nil {
			n.work()
		}
		if n.passes%checkEvery == 0 {
			err = n.mod.Check()
		}
	}
	n.err = err
	return got, err
}

// checkEvery is the number of passes between walks through a module's state, which are slow.
const checkEvery = 512

// Deadline is when the next pass is due, whatever arrives.
func (n *node) Deadline() btl.Time { return n.mod.Deadline() }

// crash is the death of the process: nobody is told.
func (n *node) crash() {
	n.at.crash()
	n.crashed = true
	n.mod, n.work, n.out = nil, nil, nil
}

// quit closes the node's module in an instant, and its process ends.
func (n *node) quit() {
	n.l.t.Helper()
	n.at.run(nil)
	if err := n.mod.Close(); err != nil {
		n.l.t.Errorf("node %d: close: %v", n.id, err)
	}
	n.mod, n.work, n.out = nil, nil, nil
}

// ended returns how the node's endpoint ended; it fails if that was told twice.
func (n *node) ended(ep *btl.Endpoint) (event, bool) {
	n.l.t.Helper()
	var last event
	count := 0
	for _, e := range n.events {
		if e.ep == ep && e.ev != btl.EventConnected {
			last = e
			count++
		}
	}
	if count > 1 {
		n.l.t.Errorf("node %d: the end of an endpoint was told %d times", n.id, count)
	}
	return last, count > 0
}

// accepted returns the endpoints that have connected at the node, in order.
func (n *node) accepted() []*btl.Endpoint {
	var eps []*btl.Endpoint
	for _, e := range n.events {
		if e.ev == btl.EventConnected {
			eps = append(eps, e.ep)
		}
	}
	return eps
}

// patience is how long something that must happen may take.
func (l *lab) patience() time.Duration {
	if l.fx.virtual {
		return patienceVirtual
	}
	return patienceReal
}

// until lets time pass until cond holds.
func (l *lab) until(what string, cond func() bool) {
	l.t.Helper()
	limit := l.net.now().Add(l.patience())
	instant, steps := l.net.now(), 0
	l.kickAll()
	for !cond() {
		more := l.net.step()
		l.judge()
		now := l.net.now()
		if steps++; now != instant {
			instant, steps = now, 0
		}
		switch {
		case steps > instantSteps:
			l.t.Fatalf("%d steps at one instant: %s\n%s", steps, what, l.describe())
		case now >= limit:
			l.t.Fatalf("not within %v: %s\n%s", l.patience(), what, l.describe())
		case !more && !cond():
			l.t.Fatalf("nothing is pending, and not yet: %s\n%s", what, l.describe())
		}
	}
}

// run lets d of time pass.
func (l *lab) run(d time.Duration) {
	l.t.Helper()
	l.kickAll()
	l.net.advance(l.net.now().Add(d))
	l.judge()
}

func (l *lab) kickAll() {
	for _, n := range l.nodes {
		if n.mod != nil {
			n.at.kick()
		}
	}
}

// judge ends the scenario when a module is broken.
func (l *lab) judge() {
	l.t.Helper()
	for _, n := range l.nodes {
		if n.mod != nil && n.err != nil {
			l.t.Fatalf("node %d: %v", n.id, n.err)
		}
	}
	if l.t.Failed() {
		l.t.FailNow()
	}
}

// connect returns the endpoint of one node to another once it is connected.
func (l *lab) connect(from, to *node) *btl.Endpoint {
	l.t.Helper()
	ep := l.dial(from, to)
	l.until("connected", ep.Connected)
	return ep
}

// dial begins to connect.
func (l *lab) dial(from, to *node) *btl.Endpoint {
	l.t.Helper()
	ep, err := from.mod.Connect(from.mod.Now(), to.mod.Name())
	if err != nil {
		l.t.Fatalf("node %d to node %d: %v", from.id, to.id, err)
	}
	return ep
}

// settle waits until nothing is under way any more, and then proves that nothing has leaked.
func (l *lab) settle() {
	l.t.Helper()
	limit := l.net.now().Add(l.patience())
	for {
		why := ""
		for _, n := range l.nodes {
			if n.mod == nil {
				continue
			}
			if w := n.leftover(); w != "" {
				why = fmt.Sprintf("node %d: %s", n.id, w)
			}
		}
		if why == "" {
			break
		}
		if l.net.now() >= limit {
			l.t.Fatalf("not settled: %s\n%s", why, l.describe())
		}
		l.run(2 * time.Millisecond)
	}
	for _, n := range l.nodes {
		if n.mod == nil {
			continue
		}
		if err := n.mod.Check(); err != nil {
			l.t.Errorf("node %d at rest: %v", n.id, err)
		}
	}
	if err := l.net.check(); err != nil {
		l.t.Error(err)
	}
	for _, s := range l.streams {
		s.atRest()
	}
}

// leftover says what a node still holds; empty at rest.
func (n *node) leftover() string {
	s := n.mod.Stats()
	switch free := uint64(n.mod.Config().SendBuffers); {
	case s.InFlight != 0:
		return fmt.Sprintf("%d packets in flight", s.InFlight)
	case s.SendBuffersFree != free:
		return fmt.Sprintf("%d of %d send buffers are free", s.SendBuffersFree, free)
	case s.Unaccounted() != 0:
		return fmt.Sprintf("%d packets received that no counter explains", s.Unaccounted())
	}
	return ""
}

// describe tells what a failed scenario looked like.
func (l *lab) describe() string {
	out := ""
	for _, n := range l.nodes {
		if n.mod == nil {
			continue
		}
		s := n.mod.Stats()
		out += fmt.Sprintf("node %d: %d endpoints, %d passes, in flight %d, sent again %d, drops %d\n",
			n.id, s.Endpoints, n.passes, s.InFlight, s.Retransmits(), s.Drops())
	}
	for _, s := range l.streams {
		if !s.done() {
			out += s.String() + "\n"
		}
	}
	return out
}

func (l *lab) close() {
	for _, n := range l.nodes {
		if n.mod != nil {
			n.quit()
		}
	}
	runtime.GC() // the arenas of the memory network are large
}
