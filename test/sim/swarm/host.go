package swarm

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/internal/limits"
	"gobtl/internal/mono"
	"gobtl/test/sim/cluster"
)

// host is a node of the network, with its successive modules.
type host struct {
	w      *world
	plan   *NodePlan
	index  int
	node   *cluster.Host
	life   *life // nil while it is down
	lives  []*life
	toOpen int // times that it is going to be opened

	restless bool // has been paused, slowed or crashed
}

// life is one module, from Open to Close or to a crash.
type life struct {
	w      *world
	host   *host
	number int
	cfg    btl.Config
	limits limits.Limits
	mod    *btl.Module
	inc    uint64
	names  []byte
	ends   []*end
	random random

	regions   []*region
	library   *library
	libraries []*library // withdrawn ones
	regs      []*registered
	kept      keptMessages
	keptOf    map[string]int // number of kept requests of each address

	passing    bool // inside Progress
	deafened   int
	deafIn     bool // was deafened in a handler
	turnedAway bool // the application has refused a peer, or not decided
	moves      bool // the application has sent a peer to another module
	closing    bool // Drain or Close was called
	closeAsked bool // Close was called in a callback
	closed     bool
	crashed    bool
	began      mono.Time
	fullAt     mono.Time // when it last had many endpoints; 0: never
}

// The constants below are tags of messages.
const (
	tagPlain    btl.Tag = 1
	tagFlicker  btl.Tag = 7   // its handler is removed at times
	tagNobody   btl.Tag = 200 // it and some behind it have no handlers
	nobodies            = 3
	handledTags         = 6
	tagLimited  btl.Tag = 3      // its handler takes messages of up to limitBytes
	limitBytes          = 20_000 // more than two packets
)

// nobodys reports whether a tag never has a handler.
func nobodys(t btl.Tag) bool { return t >= tagNobody }

// open starts an incarnation of the module.
func (h *host) open() error {
	w := h.w
	l := &life{
		keptOf: map[string]int{},
		w:      w, host: h, number: len(h.lives), cfg: h.plan.Config,
		limits: h.plan.Limits, began: w.net.Now(),
	}
	l.random = random{d: newDraw(w.plan.Seed, 0x5EED<<32|uint64(h.index)<<16|uint64(l.number))}
	l.cfg.SetLimits(h.plan.Limits)
	l.cfg.Random = l.random.next
	l.random.full = true
	if err := h.node.Open(l.cfg); err != nil {
		return err
	}
	l.mod = h.node.Mod
	l.random.full = false
	l.inc, l.names = l.random.latest, l.mod.Name()
	w.byInc[l.inc] = l
	if w.opts.Life != nil {
		w.opts.Life(l.inc, fmt.Sprintf("%s%d", h.node.Name(), l.number))
	}
	for t := range handledTags {
		if err := l.mod.Handle(btl.Tag(t+1), l.receive); err != nil {
			return err
		}
	}
	if err := l.mod.Handle(tagFlicker, l.receive); err != nil {
		return err
	}
	if err := l.mod.Handle(tagNotice, l.onNotice); err != nil {
		return err
	}
	if err := l.mod.HandleUpTo(tagLimited, limitBytes, l.receive); err != nil {
		return err
	}
	l.mod.OnEndpoint(l.onEndpoint)
	if h.plan.Requests.Keep > 0 {
		l.mod.Admit(l.admit)
	}
	h.life = l
	h.lives = append(h.lives, l)
	for range w.d.IntN(4) {
		l.expose()
	}
	l.openLibrary()
	h.node.Run(l)
	w.note(h, "life %d begins", l.number)
	return nil
}

// Progress polls the module, and checks the results.
func (l *life) Progress(now mono.Time) (int, error) {
	l.passing, l.random.second = true, false
	n, err := l.mod.Progress(now)
	l.passing = false
	w := l.w
	if l.closed {
		return 0, nil
	}
	if err != nil {
		w.fail("node %s: Progress: %w", l.host.node.Name(), err)
		return n, nil
	}
	if l.closeAsked {
		l.judgeClosed()
		return n, nil
	}
	if err := l.mod.Check(); err != nil {
		w.fail("node %s: %w", l.host.node.Name(), err)
	}
	if endpointsOf(l.mod) >= peersEnough/4 {
		l.fullAt = now
	}
	return n, nil
}

// Deadline is the module's deadline.
func (l *life) Deadline() mono.Time {
	if l.closed {
		return mono.Never
	}
	return l.mod.Deadline()
}

// crash kills the process.
func (l *life) crash() {
	l.crashed, l.closed = true, true
	l.host.life = nil
	l.host.restless = true
	l.host.node.Crash()
	l.w.ledger.abandon(l)
	for _, e := range l.ends {
		l.w.flushes -= e.flushes
		e.flushes = 0
	}
	l.w.note(l.host, "crash")
}

// The method shut closes the module, and all incomplete operations must end with ErrClosed.
func (l *life) shut() {
	if l.closed {
		return
	}
	w := l.w
	l.closing = true
	if err := l.mod.Close(); err != nil {
		w.fail("node %s: Close: %w", l.host.node.Name(), err)
	}
	l.afterClose()
}

// judgeClosed checks that a Close in a callback takes effect at the end of the poll.
func (l *life) judgeClosed() {
	if _, err := l.mod.Expose(nil, 0); !errors.Is(err, btl.ErrClosed) {
		l.w.fail("node %s: closed in a callback, and still open after the pass", l.host.node.Name())
	}
	l.afterClose()
}

// afterClose checks the guarantees of Close.
func (l *life) afterClose() {
	w := l.w
	l.closed = true
	l.host.life = nil
	l.host.node.Run(nil)
	l.host.node.Mod = nil
	w.note(l.host, "module closed")
	for _, e := range l.ends {
		if !e.over && e.shown() {
			w.fail("node %s: %s got no event when the module was closed", l.host.node.Name(), e)
		}
		if e.flushes > 0 {
			w.fail("node %s: %s: %d flushes not called when the module was closed",
				l.host.node.Name(), e, e.flushes)
		}
	}
	if m := w.ledger.openOf(l); m != nil {
		w.fail("node %s: %s had not ended when the module was closed", l.host.node.Name(), m)
	}
}

// closeInOrder begins to close the module's endpoints, in one of two ways.
func (l *life) closeInOrder() {
	if l.closed {
		return
	}
	l.w.note(l.host, "closes everything in order")
	if l.host.plan.Drain {
		l.closing = true
		l.mod.Drain(l.w.net.Now(), l.w.net.Now().Add(time.Hour))
		for _, e := range l.ends {
			e.closing = true
		}
	} else {
		for _, e := range l.ends {
			e.close()
		}
	}
	l.host.node.Kick()
}

// notClosed describes the endpoints that the module still has.
func (l *life) notClosed() error {
	for _, e := range l.ends {
		if !e.over && e.shown() {
			return fmt.Errorf("%s is still there", e)
		}
	}
	if n := endpointsOf(l.mod); n > 0 {
		return fmt.Errorf("%d endpoints are left", n)
	}
	return nil
}

// judgeEnd compares the regions with the possible effects of the puts.
func (l *life) judgeEnd() {
	for _, r := range l.regions {
		r.judge()
	}
	if l.library != nil {
		l.library.judge()
	}
	for _, b := range l.libraries {
		b.judgeClosed()
	}
}

// random is a module's Config.Random, which makes first sequence numbers and fragment ids close to
// their overflow. Each new endpoint asks first for its tag, and then for its first sequence number,
// which is the lower half of a random number. A first fragment id is the upper half of a number
// that the endpoint asks for later.
type random struct {
	d      draw
	latest uint64
	full   bool // no sequence number is asked for
	second bool // a connection's tag was drawn, its sequence number comes next
}

func (r *random) next() uint64 {
	v := r.d.Uint64()
	if !r.full && r.d.chance(0.8) {
		fragID, low := uint32(v>>32), uint32(v)
		if fragID>>31 == 0 {
			fragID = -(1 + fragID%16)
		}
		if r.second {
			low = nearWrap(r.d)
		}
		v = uint64(fragID)<<32 | uint64(low)
	}
	if v == 0 {
		v = 1
	}
	if !r.full {
		r.second = !r.second
	}
	r.latest = v
	return v
}

// nearWrap draws a number slightly below 0, 2^16, 2^31 or 2^32.
func nearWrap(d draw) uint32 {
	at := [...]uint32{0, 1 << 16, 1 << 31}[d.IntN(3)]
	return at - uint32(d.size(1, 300)) + 1
}
