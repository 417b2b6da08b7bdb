package sim

import (
	"fmt"
	"slices"
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// ProviderName is the Info.Provider of this package's domains.
const ProviderName = "sim/net"

const (
	defaultMTUBytes       = 1472
	defaultInjectBytes    = 1024
	defaultDepth          = 1024
	defaultQueueDatagrams = 1024
	defaultPassCost       = time.Microsecond

	maxMTUBytes       = 1 << 20
	maxDepth          = 1 << 20
	maxQueueDatagrams = 1 << 20
	maxNodes          = 1 << 16 // what a name can hold
	maxNodeNameBytes  = 32
	maxViolations     = 16
)

// Config describes a Network and the endpoints opened on it. Zero fields mean the defaults.
type Config struct {
	Seed uint64
	// MTUBytes is the largest datagram of the endpoints, 1 to 1 MiB. Default 1472.
	MTUBytes int
	// InjectBytes is the largest send that is complete when Post returns. Default 1024 (or MTUBytes if
	// that is less). Negative means 0.
	InjectBytes int
	// TxDepth and RxDepth are those of an endpoint that does not ask for its own. Default 1024.
	TxDepth, RxDepth int
	// QueueDatagrams is how many datagrams wait at an endpoint before more are dropped. Default 1024.
	QueueDatagrams int
	// Reliable makes the network one of a provider that is reliable and ordered by itself: Info says
	// so, and of a Path only Delay, Jitter, BytesPerSecond and Cut count. Between two endpoints
	// nothing overtakes. A receiver whose queue is full holds its senders up (ErrAgain). What is sent
	// to an endpoint that is not open is lost, and so is what a Filter drops.
	Reliable bool
	// NoGather takes Caps.Gather away.
	NoGather bool
	// FreeRegions sets Caps.FreeRegions, unless NoGather does.
	FreeRegions bool
	// NoLanding takes Caps.Landing away.
	NoLanding bool
	// NoSource has nobody know where a datagram came from (fabric.Sourcer).
	NoSource bool
	// PollAhead is how many datagrams a Poll that fills out may take in beyond it, into buffers and
	// landing, for the next one to tell of: as providers do that receive several in one call.
	PollAhead int
	// PassCost is the virtual time that one pass of a process takes. Default 1 us.
	PassCost time.Duration
	// Observe is called for every event, in order; nil is nobody.
	Observe func(*Event)
	// Memory is reused from earlier networks that were closed; nil makes new memory.
	Memory *Memory
}

func (c Config) withDefaults() (Config, error) {
	if c.InjectBytes == 0 {
		c.InjectBytes = defaultInjectBytes
	}
	for _, f := range []struct {
		name      string
		value     *int
		def, most int
	}{
		{"MTUBytes", &c.MTUBytes, defaultMTUBytes, maxMTUBytes},
		{"TxDepth", &c.TxDepth, defaultDepth, maxDepth},
		{"RxDepth", &c.RxDepth, defaultDepth, maxDepth},
		{"QueueDatagrams", &c.QueueDatagrams, defaultQueueDatagrams, maxQueueDatagrams},
	} {
		if *f.value == 0 {
			*f.value = f.def
		}
		if *f.value < 1 || *f.value > f.most {
			return c, badConfig("%s is %d, want 1 to %d", f.name, *f.value, f.most)
		}
	}
	c.InjectBytes = min(max(c.InjectBytes, 0), c.MTUBytes)
	if c.PassCost == 0 {
		c.PassCost = defaultPassCost
	}
	if c.PassCost < 0 {
		return c, badConfig("PassCost is %v, want more than 0", c.PassCost)
	}
	return c, nil
}

func badConfig(format string, args ...any) error {
	return fmt.Errorf("%w: sim: %s", fabric.ErrBadConfig, fmt.Sprintf(format, args...))
}

// Network is a set of nodes that reach each other, with its own time.
type Network struct {
	cfg    Config
	now    mono.Time
	nodes  []*Node
	byName map[string]*Node // only looked up: a map's order must not become behaviour
	filter Filter

	timers timerHeap
	passes passHeap
	seq    uint64 // of the latest timer
	calls  []func()
	idle   []uint32 // free entries of calls

	packets   []*packet // by packet.ref
	free      []*packet
	endpoints []*endpoint // by endpoint.ref; nil after Close
	nowhere   *link       // from or to nodes that do not exist

	inFlight   int
	queued     int
	lastID     uint64
	lastDomain uint32
	counts     Counts
	hash       uint64
	event      Event
	asked      Datagram // what the filter is asked about
	violations []error
	closed     bool
}

// New returns a network without nodes. Errors wrap fabric.ErrBadConfig.
func New(cfg Config) (*Network, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	nw := &Network{cfg: cfg, now: 1, byName: make(map[string]*Node)}
	nw.nowhere = newLink(nw, maxNodes, maxNodes)
	return nw, nil
}

// Now is the virtual time. It starts at 1.
func (nw *Network) Now() mono.Time { return nw.now }

// At calls fn as an event of its own at t, or now if that is past.
func (nw *Network) At(t mono.Time, fn func()) {
	var ref uint32
	if n := len(nw.idle); n > 0 {
		ref = nw.idle[n-1]
		nw.idle = nw.idle[:n-1]
	} else {
		ref = uint32(len(nw.calls))
		nw.calls = append(nw.calls, nil)
	}
	nw.calls[ref] = fn
	nw.timer(t, timerCall, ref)
}

// After is At, d from now.
func (nw *Network) After(d time.Duration, fn func()) { nw.At(nw.now.Add(d), fn) }

func (nw *Network) timer(at mono.Time, what uint8, ref uint32) {
	nw.seq++
	nw.timers.push(timer{at: max(at, nw.now), seq: nw.seq, what: what, ref: ref})
}

// next is the time of the next event, Never if there is none. At the same time datagrams and calls
// come before passes, so that a pass sees all that has arrived.
func (nw *Network) next() (at mono.Time, pass bool) {
	at = mono.Never
	if len(nw.timers) > 0 {
		at = nw.timers[0].at
	}
	if len(nw.passes) > 0 && nw.passes[0].passAt < at {
		return nw.passes[0].passAt, true
	}
	return at, false
}

// Step runs the next event. It returns false if nothing is pending.
func (nw *Network) Step() bool {
	at, pass := nw.next()
	if at == mono.Never {
		return false
	}
	nw.run(at, pass)
	return true
}

// RunUntil runs all events up to and including t; then it is t.
func (nw *Network) RunUntil(t mono.Time) {
	for {
		at, pass := nw.next()
		if at > t || at == mono.Never {
			break
		}
		nw.run(at, pass)
	}
	nw.now = max(nw.now, t)
}

func (nw *Network) run(at mono.Time, pass bool) {
	nw.now = at
	if pass {
		nw.passes[0].pass()
		return
	}
	t := nw.timers.pop()
	switch t.what {
	case timerArrive:
		nw.inFlight--
		nw.arrive(nw.packets[t.ref])
	case timerLeave:
		if e := nw.endpoints[t.ref]; e != nil { // else it was closed meanwhile
			e.leave(nil)
		}
	case timerCall:
		fn := nw.calls[t.ref]
		nw.calls[t.ref] = nil
		nw.idle = append(nw.idle, t.ref)
		fn()
	}
}

// Filter sees a datagram as it leaves a node, before anything else happens to it.
type Filter func(d *Datagram) Verdict

// Datagram is valid during the Filter's call; Data is read only.
type Datagram struct {
	ID       uint64
	From, To Port
	Data     []byte
}

// Verdict is what becomes of a datagram. The zero value lets it pass.
type Verdict struct {
	Drop   bool
	Copies int           // extra ones
	Delay  time.Duration // beside the path's
}

// SetFilter sets the filter of all paths; nil is none.
func (nw *Network) SetFilter(f Filter) { nw.filter = f }

// transmit takes a packet that leaves its node.
func (nw *Network) transmit(p *packet) {
	nw.lastID++
	p.id = nw.lastID
	nw.datagram(KindSent, p)
	var v Verdict
	if nw.filter != nil {
		nw.asked = Datagram{ID: p.id, From: p.from, To: p.to, Data: p.data}
		v = nw.filter(&nw.asked)
		if v.Drop {
			nw.drop(KindFiltered, p)
			return
		}
	}
	nw.link(p.from.Node, p.to.Node).carry(p, v)
}

// drop ends a packet.
func (nw *Network) drop(kind Kind, p *packet) {
	nw.datagram(kind, p)
	nw.release(p)
}

// arrive puts a packet into the queue of its receiver.
func (nw *Network) arrive(p *packet) {
	e := nw.endpoint(p.to)
	switch {
	case e == nil:
		nw.drop(KindUnreachable, p)
	case p.spoilt:
		nw.drop(KindChecksum, p)
	case e.queue.count >= e.domain.node.queueDatagrams() && !nw.cfg.Reliable:
		e.missed++
		nw.drop(KindQueueFull, p)
	default:
		e.queue.push(p)
		nw.queued++
		if e.pollable() {
			e.domain.node.wake(nw.now)
		}
	}
}

// endpoint returns the open endpoint of a port, or nil.
func (nw *Network) endpoint(p Port) *endpoint {
	if p.Node < 0 || p.Node >= len(nw.nodes) {
		return nil
	}
	d := nw.nodes[p.Node].dom
	if d == nil || p.Index < 0 || p.Index >= len(d.ports) {
		return nil
	}
	return d.ports[p.Index]
}

// Inject puts a datagram under way that no endpoint has posted: an attacker's, or junk. It takes
// the path's delay and none of its faults, and no filter sees it.
func (nw *Network) Inject(from, to Port, data []byte) {
	p := nw.newPacket()
	p.data = append(p.data, data...)
	nw.lastID++
	p.id, p.from, p.to = nw.lastID, from, to
	nw.datagram(KindInjected, p)
	nw.link(from.Node, to.Node).send(p, nw.now, 0)
}

// Counts returns the number of events of each Kind.
func (nw *Network) Counts() Counts { return nw.counts }

// Hash is the hash of all events so far: their times, kinds, ports, datagram numbers, lengths and
// bytes. Two runs with the same hash were the same run.
func (nw *Network) Hash() uint64 { return nw.hash }

// InFlight is the number of datagrams on their way.
func (nw *Network) InFlight() int { return nw.inFlight }

// Queued is the number of datagrams that wait at their receivers.
func (nw *Network) Queued() int { return nw.queued }

// Violations lists what the users of the fabric did wrong, the first 16 of it: a buffer altered or
// posted again before its completion, a send to an address that was removed, memory taken away from
// a send, and the like.
func (nw *Network) Violations() []error { return slices.Clone(nw.violations) }

func (nw *Network) violate(p Port, format string, args ...any) {
	if len(nw.violations) < maxViolations {
		nw.violations = append(nw.violations, fmt.Errorf("sim: at %d ns, %s endpoint %d: %s",
			nw.now, nw.nodes[p.Node].name, p.Index, fmt.Sprintf(format, args...)))
	}
}
