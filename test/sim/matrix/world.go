package matrix

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
	"gobtl/test/sim/cluster"
)

// The constants below are tags of the applications.
const (
	tagStream btl.Tag = 1
	tagPing   btl.Tag = 2
	tagPong   btl.Tag = 3
)

// cableDelay is the delay of every path during the handshakes, which are not measured.
const cableDelay = 10 * time.Microsecond

// world is a simulated network and the modules on it.
type world struct{ *cluster.Cluster }

// host is a node with its module.
type host struct {
	*cluster.Host

	w        *world
	gotBytes int // by the handler of streams
	ofBytes  int // size of the messages of the stream that comes; 0: not known
	random   uint64
}

func newWorld(cfg sim.Config) (*world, error) {
	cfg.MTUBytes = mtuBytes
	c, err := cluster.New(cfg)
	return &world{c}, err
}

// open adds a host.
func (w *world) open(cfg btl.Config) (*host, error) {
	i := len(w.Hosts)
	h := &host{Host: w.Add(fmt.Sprintf("h%d", i)), w: w, random: uint64(i)}
	cfg.Random = h.draw
	if err := h.Open(cfg); err != nil {
		return nil, err
	}
	count := func(_ *btl.Endpoint, _ btl.Tag, data []byte) { h.gotBytes += len(data) }
	if err := h.Mod.Handle(tagStream, count); err != nil {
		return nil, err
	}
	h.Start(nil)
	return h, nil
}

// got is the received payload in bytes, which includes the received chunks of incomplete messages.
func (h *host) got() int {
	if h.ofBytes <= 16*streamBytes {
		return h.gotBytes
	}
	stats := h.Mod.Stats()
	return int(stats.Get(btl.CntRecvChunk)) * h.ofBytes / packetsOf(h.ofBytes)
}

// openAll adds hosts with the same configuration.
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

// connect connects two hosts over a short path without loss, and waits until no packet is in
// flight.
func (w *world) connect(from, to *host) (*btl.Endpoint, error) {
	w.setPaths(from, to, sim.Path{Delay: cableDelay}, sim.Path{Delay: cableDelay})
	ep, err := from.Connect(to.Host, time.Second)
	w.Advance(time.Millisecond)
	return ep, err
}

func (w *world) setPaths(from, to *host, there, back sim.Path) {
	w.SetPath(from.Node, to.Node, there)
	w.SetPath(to.Node, from.Node, back)
}

// check returns an error for a broken module, a failed endpoint, or a misuse of the fabric.
func (w *world) check() error {
	for _, h := range w.Hosts {
		s := h.Mod.Stats()
		if n := s.Get(btl.CntPeersFailed) + s.Get(btl.CntFailed); n > 0 {
			return fmt.Errorf("%s: %d connections lost, %d sends failed", h.Name(),
				s.Get(btl.CntPeersFailed), s.Get(btl.CntFailed))
		}
	}
	return w.Check()
}

// The type stream sends messages of one size, and always has more to send than the window allows.
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

// start begins to send, or continues after left was set again.
func (s *stream) start(h *host) {
	s.fill(h.w.Now())
	h.Kick()
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

// newStream makes an endless stream.
func newStream(ep *btl.Endpoint, sizeBytes, depth int) *stream {
	return &stream{ep: ep, mem: make([]byte, sizeBytes), tag: tagStream, depth: depth, left: -1}
}

// pings sends one 8-byte message at a time in alternating directions, and stores the latency of
// each.
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
			p.took = append(p.took, p.w.Now().Sub(p.sentAt))
			if !p.done() {
				p.send(ep, tag)
			}
		}
	}
	if err := to.Mod.Handle(tagPing, answer(tagPong)); err != nil {
		return nil, err
	}
	return p, from.Mod.Handle(tagPong, answer(tagPing))
}

func (p *pings) done() bool { return len(p.took) == p.wanted || p.err != nil }

func (p *pings) start(h *host) {
	p.send(p.ep, tagPing)
	h.Kick()
}

func (p *pings) send(ep *btl.Endpoint, tag btl.Tag) {
	p.sentAt = p.w.Now()
	f, err := ep.Alloc(tag, 8)
	if err == nil {
		_, err = ep.Send(p.sentAt, f)
	}
	if err != nil {
		p.err = err
	}
}
