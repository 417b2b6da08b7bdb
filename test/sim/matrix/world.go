package matrix

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// Tags of the applications.
const (
	tagStream btl.Tag = 1
	tagPing   btl.Tag = 2
	tagPong   btl.Tag = 3
)

// cableDelay is the delay of every path until the connections are made: over a path that loses
// nothing, because handshakes are not what is measured.
const cableDelay = 10 * time.Microsecond

// world is a simulated network and the modules on it.
type world struct {
	net   *sim.Network
	hosts []*host
}

// host is a node with its module.
type host struct {
	w        *world
	node     *sim.Node
	mod      *btl.Module
	gotBytes int // by the handler of streams
	random   uint64
}

func newWorld(cfg sim.Config) (*world, error) {
	cfg.MTUBytes = mtuBytes
	net, err := sim.New(cfg)
	if err != nil {
		return nil, err
	}
	return &world{net: net}, nil
}

// open adds a host.
func (w *world) open(cfg btl.Config) (*host, error) {
	h := &host{w: w, node: w.net.Node(fmt.Sprintf("h%d", len(w.hosts))), random: uint64(len(w.hosts))}
	cfg.Random = h.draw
	domain, err := cfg.DomainConfig(h.node.Info())
	if err != nil {
		return nil, err
	}
	dom, err := h.node.Open(domain)
	if err != nil {
		return nil, err
	}
	if h.mod, err = btl.Open(dom, cfg); err != nil {
		return nil, err
	}
	count := func(_ *btl.Endpoint, _ btl.Tag, data []byte) { h.gotBytes += len(data) }
	if err := h.mod.Handle(tagStream, count); err != nil {
		return nil, err
	}
	h.node.Run(h.mod)
	w.hosts = append(w.hosts, h)
	return h, nil
}

// openAll adds hosts of one configuration.
func (w *world) openAll(count int, cfg btl.Config) ([]*host, error) {
	all := make([]*host, count)
	for i := range all {
		var err error
		if all[i], err = w.open(cfg); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// draw gives a module its random numbers.
func (h *host) draw() uint64 {
	h.random = h.random*6364136223846793005 + 1442695040888963407
	return h.random ^ h.random>>29
}

// connect connects two hosts over a short path without loss, and waits until nothing is under way.
func (w *world) connect(from, to *host) (*btl.Endpoint, error) {
	w.net.SetPath(from.node, to.node, sim.Path{Delay: cableDelay})
	w.net.SetPath(to.node, from.node, sim.Path{Delay: cableDelay})
	ep, err := from.mod.Connect(w.net.Now(), to.mod.Name())
	if err != nil {
		return nil, err
	}
	from.node.Kick()
	if !w.until(w.net.Now().Add(time.Second), ep.Connected) {
		return nil, fmt.Errorf("not connected after a second: %w", ep.Err())
	}
	w.run(time.Millisecond)
	return ep, nil
}

// until runs until cond holds, or the time is end, and says whether cond holds.
func (w *world) until(end mono.Time, cond func() bool) bool {
	for !cond() {
		if w.net.Now() >= end || !w.net.Step() {
			return false
		}
	}
	return true
}

func (w *world) run(d time.Duration) { w.net.RunUntil(w.net.Now().Add(d)) }

// check reports what must not happen in any run: a broken module, an endpoint lost, a misuse.
func (w *world) check() error {
	for _, v := range w.net.Violations() {
		return v
	}
	for _, h := range w.hosts {
		if err := h.mod.Check(); err != nil {
			return fmt.Errorf("%s: %w", h.node.Name(), err)
		}
		s := h.mod.Stats()
		if n := s.Get(btl.CntPeersFailed) + s.Get(btl.CntFailed); n > 0 {
			return fmt.Errorf("%s: %d connections lost, %d sends failed", h.node.Name(),
				s.Get(btl.CntPeersFailed), s.Get(btl.CntFailed))
		}
	}
	return nil
}

// stream sends messages of one size as fast as they go: there is always more to send than a window.
type stream struct {
	ep    *btl.Endpoint
	mem   []byte
	tag   btl.Tag
	depth int // messages under way at once
	left  int // messages still to be sent; negative: no end
	under int // messages under way
	done  int // messages that have ended
	err   error
}

// start begins, or goes on after left was set anew.
func (s *stream) start(h *host) {
	s.fill(h.w.net.Now())
	h.node.Kick()
}

func (s *stream) fill(now mono.Time) {
	for s.under < s.depth && s.left != 0 && s.err == nil {
		f, err := s.ep.Prepare(s.tag, s.mem)
		if err != nil {
			return // no descriptor is free: the end of a message brings one
		}
		f.Signal, f.OnDone = true, s.ended
		if _, err := s.ep.Send(now, f); err != nil {
			s.err = errors.Join(err, s.ep.Free(f))
			return
		}
		s.under++
		s.left--
	}
}

func (s *stream) ended(_ *btl.Fragment, err error) {
	s.under--
	s.done++
	if err != nil {
		s.err = err
	}
	s.fill(s.ep.Now())
}

// newStream makes a stream without end.
func newStream(ep *btl.Endpoint, sizeBytes, depth int) *stream {
	return &stream{ep: ep, mem: make([]byte, sizeBytes), tag: tagStream, depth: depth, left: -1}
}

// pings sends a message of 8 bytes to and fro, always one, and notes how long each was under way.
type pings struct {
	w      *world
	ep     *btl.Endpoint
	sentAt mono.Time
	took   []time.Duration
	wanted int
	err    error
}

func newPings(from, to *host, ep *btl.Endpoint, wanted int) (*pings, error) {
	p := &pings{w: from.w, ep: ep, took: make([]time.Duration, 0, wanted), wanted: wanted}
	answer := func(tag btl.Tag) btl.Handler {
		return func(ep *btl.Endpoint, _ btl.Tag, _ []byte) {
			p.took = append(p.took, p.w.net.Now().Sub(p.sentAt))
			if !p.done() {
				p.send(ep, tag)
			}
		}
	}
	if err := to.mod.Handle(tagPing, answer(tagPong)); err != nil {
		return nil, err
	}
	return p, from.mod.Handle(tagPong, answer(tagPing))
}

func (p *pings) done() bool { return len(p.took) == p.wanted || p.err != nil }

func (p *pings) start(h *host) {
	p.send(p.ep, tagPing)
	h.node.Kick()
}

func (p *pings) send(ep *btl.Endpoint, tag btl.Tag) {
	p.sentAt = p.w.net.Now()
	f, err := ep.Alloc(tag, 8)
	if err == nil {
		_, err = ep.Send(p.sentAt, f)
	}
	if err != nil {
		p.err = err
	}
}
