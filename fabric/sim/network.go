package sim

import (
	"fmt"
	"slices"
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// ProviderName is the value of Info.Provider in the domains of this package.
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
	maxNodes          = 1 << 16 // limit of the name format
	maxNodeNameBytes  = 32
	maxViolations     = 16
)

// Config describes a Network and its endpoints. For a field with the zero value, New uses the
// default that the field's comment states.
type Config struct {
	Seed uint64
	// MTUBytes is the size of the largest datagram, 1 to 1 MiB. The default of MTUBytes is 1472.
	MTUBytes int
	// InjectBytes is the size of the largest send that has no Completion. The default of InjectBytes
	// is 1024 or MTUBytes, whichever is lower. A negative InjectBytes means 0.
	InjectBytes int
	// TxDepth and RxDepth are the queue depths of an endpoint whose EndpointConfig does not set them.
	// The default of TxDepth and RxDepth is 1024.
	TxDepth, RxDepth int
	// QueueDatagrams is the number of datagrams that an endpoint's receive queue can hold. A full
	// receive queue drops the datagrams that arrive. The default of QueueDatagrams is 1024.
	QueueDatagrams int
	// If Reliable is true, the network is reliable and ordered, as the Info of each domain reports. A
	// reliable network uses only the fields Delay, Jitter, BytesPerSecond and Cut of a Path. In a
	// reliable network, datagrams from one endpoint to a second endpoint arrive in the order in which
	// they were sent. In a reliable network, Post returns ErrAgain if the queue of the receiver is
	// full, or if an injected send would overtake an earlier send. Even a reliable network loses
	// datagrams to an endpoint that is not open, and datagrams that a Filter drops.
	Reliable bool
	// If NoGather is true, Caps.Gather is false, so that a test can check that a caller works without
	// Caps.Gather.
	NoGather bool
	// If FreeRegions is true and NoGather is false, Caps.FreeRegions is true.
	FreeRegions bool
	// If NoLanding is true, Caps.Landing is false, so that a test can check that a caller works
	// without fabric.Lander.
	NoLanding bool
	// If NoSource is true, AppendSource (fabric.Sourcer) does not report the source address of
	// datagrams.
	NoSource bool
	// PollAhead is the number of datagrams that a Poll can receive in addition to the datagrams that
	// it reports in the slice "out". The next Poll reports these additional datagrams of PollAhead.
	PollAhead int
	// PassCost is the shortest virtual time between two calls of Process.Progress by a node. The
	// default of PassCost is 1 us.
	PassCost time.Duration
	// The network calls the function Observe, if it is not nil, for every event, in the order of the
	// events.
	Observe func(*Event)
	// Memory holds the memory of closed networks, which the network reuses. If Memory is nil, the
	// network allocates new memory.
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

// Network is a set of nodes that can send datagrams to each other. Each Network has a separate
// virtual time.
type Network struct {
	cfg    Config
	now    mono.Time
	nodes  []*Node
	byName map[string]*Node // never iterated: a map's order must not affect events
	filter Filter

	timers timerHeap
	passes passHeap
	seq    uint64 // number of the latest timer
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
	asked      Datagram // the argument of the filter
	violations []error
	closed     bool
}

// New returns a network without nodes. The errors of New wrap fabric.ErrBadConfig.
func New(cfg Config) (*Network, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	nw := &Network{cfg: cfg, now: 1, byName: make(map[string]*Node)}
	nw.nowhere = newLink(nw, maxNodes, maxNodes)
	return nw, nil
}

// Now is the virtual time, which starts at 1.
func (nw *Network) Now() mono.Time { return nw.now }

// At schedules an event that calls the function "fn" at the virtual time t, or at the present
// virtual time if t is in the past.
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

// After schedules an event that calls the function "fn" when the virtual time "d" has passed.
func (nw *Network) After(d time.Duration, fn func()) { nw.At(nw.now.Add(d), fn) }

func (nw *Network) timer(at mono.Time, what uint8, ref uint32) {
	nw.seq++
	nw.timers.push(timer{at: max(at, nw.now), seq: nw.seq, what: what, ref: ref})
}

// The method "next" returns the time of the next event, or Never if there is no event. If several
// events have the same time, the calls of Progress come last, so that Progress sees all datagrams
// that have arrived.
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

// Step runs the next event, and reports whether there was an event.
func (nw *Network) Step() bool {
	at, pass := nw.next()
	if at == mono.Never {
		return false
	}
	nw.run(at, pass)
	return true
}

// RunUntil runs all events up to and including time t, and then sets the virtual time to t.
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
		if e := nw.endpoints[t.ref]; e != nil { // otherwise the endpoint was closed
			e.leave(nil)
		}
	case timerCall:
		fn := nw.calls[t.ref]
		nw.calls[t.ref] = nil
		nw.idle = append(nw.idle, t.ref)
		fn()
	}
}

// Filter is a function that the network calls for each datagram that leaves a node, before the path
// injects faults into the datagram.
type Filter func(d *Datagram) Verdict

// A Datagram is the argument of a Filter, and is valid only during the call of the Filter. The
// Filter must not alter Data.
type Datagram struct {
	ID       uint64
	From, To Port
	Data     []byte
}

// Verdict is the decision of a Filter about a datagram. The zero value delivers the datagram.
type Verdict struct {
	Drop   bool
	Copies int           // number of extra copies
	Delay  time.Duration // in addition to the path's delay
}

// SetFilter sets the Filter for the datagrams of all paths. If the argument of SetFilter is nil,
// the network has no Filter.
func (nw *Network) SetFilter(f Filter) { nw.filter = f }

// The method "transmit" handles a packet that leaves its node, by calling the Filter and then
// passing the packet to the path.
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

// The method "drop" removes a packet from the network without delivering the packet.
func (nw *Network) drop(kind Kind, p *packet) {
	nw.datagram(kind, p)
	nw.release(p)
}

func (nw *Network) arrive(p *packet) {
	e := nw.endpoint(p.to)
	switch {
	case e == nil:
		nw.drop(KindUnreachable, p)
	case p.spoilt:
		nw.drop(KindChecksum, p)
	case e.queue.Len() >= e.domain.node.queueDatagrams() && !nw.cfg.Reliable:
		e.missed++
		nw.drop(KindQueueFull, p)
	default:
		e.queue.Append(p)
		nw.queued++
		if e.pollable() {
			e.domain.node.wake(nw.now)
		}
	}
}

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

// Inject sends a datagram that no endpoint has posted, such as the datagram of an attacker. An
// injected datagram has the delay of the path from "from" to "to", but not the faults of this path.
// The network does not call the Filter for an injected datagram.
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

// Hash returns a hash of all events so far, including their times, kinds, ports, datagram numbers,
// lengths and bytes. If two runs have the same Hash, they had the same events.
func (nw *Network) Hash() uint64 { return nw.hash }

// InFlight is the number of datagrams in transit.
func (nw *Network) InFlight() int { return nw.inFlight }

// Queued is the number of datagrams in the receive queues.
func (nw *Network) Queued() int { return nw.queued }

// Violations lists the first 16 incorrect uses of the fabric interface by the code under test.
// Examples of violations are a buffer that was altered or posted again before its completion, a
// send to a removed address, and memory that was deregistered during a send.
func (nw *Network) Violations() []error { return slices.Clone(nw.violations) }

func (nw *Network) violate(p Port, format string, args ...any) {
	if len(nw.violations) < maxViolations {
		nw.violations = append(nw.violations, fmt.Errorf("sim: at %d ns, %s endpoint %d: %s",
			nw.now, nw.nodes[p.Node].name, p.Index, fmt.Sprintf(format, args...)))
	}
}
