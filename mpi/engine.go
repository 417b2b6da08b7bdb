package mpi

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/mono"
	"gobtl/internal/waiting"
	"gobtl/pml"
)

// engine is what all communicators of a process share. mu guards all of it; who holds it owns the
// module and the layer.
type engine struct {
	mu     sync.Mutex
	wanted atomic.Int32 // calls that want mu while somebody drives

	m       *btl.Module
	l       *pml.Layer
	sleeper fabric.Sleeper // nil: the fabric has none, and sleeps are short
	policy  *waiting.Policy
	slack   time.Duration
	start   time.Time
	latest  mono.Time // when the clock was read last since lock; 0: not since

	clock func() mono.Time       // of who drives from outside; nil: the system's
	turns func(over func() bool) // who drives from outside makes passes until over; nil: calls do

	rank  int
	names [][]byte    // of the ranks' modules
	peers []*pml.Peer // by rank; nil until one is needed

	driving    bool // a call makes passes
	asleep     bool // somebody sleeps on the fabric, without mu
	roused     bool // and was told not to
	sleepUntil mono.Time
	watched    <-chan struct{} // of the context whose end ends sleeps; nil: none
	watching   func() bool     // ends that
	parked     *waiter         // calls that sleep while others drive
	spare      *waiter
	free       *Request   // of blocking calls, linked by next
	operations *operation // that are not under way
	passes     atomic.Uint64
	windows    []*window
	exposed    int   // windows that have memory here
	broken     error // the fabric is, or the job was finalized
	finalizing bool
	contexts   uint64
	failures   failures

	quit, ended chan struct{} // of the helper
}

// waiter is a call that waits for requests.
type waiter struct {
	left   int // requests that must end yet
	ready  func() bool
	parked bool
	wake   chan struct{}
	next   *waiter
}

// over says whether what a call waits for has come.
func (w *waiter) over() bool { return w.left <= 0 || w.ready != nil && w.ready() }

// member is the Context of a peer.
type member struct {
	rank   int
	second bool // it has, or had, another endpoint before: of this one only the end counts
}

// labelPrefix begins what a rank's module is called.
const labelPrefix = "rank "

func newEngine(dom fabric.Domain, m *btl.Module, cfg Config, rank int) (*engine, error) {
	e := &engine{
		m: m, rank: rank, slack: waiting.TimerSlack(),
		quit: make(chan struct{}), ended: make(chan struct{}),
	}
	e.startClock()
	e.sleeper, _ = dom.(fabric.Sleeper)
	e.policy = waiting.New(cfg.Wait, spinFor, new(waiting.OSThread), e.now())
	var err error
	if e.l, err = pml.New(m, cfg.Layer, e.peerChanged); err != nil {
		return nil, err
	}
	return e, e.handleNotices(cfg.Layer.Tag)
}

// lock takes mu; who drives gives it away between two passes.
func (e *engine) lock() {
	if !e.mu.TryLock() {
		e.wanted.Add(1)
		e.mu.Lock()
		e.wanted.Add(-1)
	}
	e.latest = 0
}

// unlock gives mu back. Who sleeps on the fabric is woken if there is something to do for it before
// it would wake up.
func (e *engine) unlock() {
	wake := e.asleep && e.l.Deadline() < e.sleepUntil
	e.mu.Unlock()
	if wake {
		e.m.Wake()
	}
}

// due makes a pass if the module has something to do at once and nobody else does it.
func (e *engine) due() {
	if !e.driving && e.l.Deadline() <= e.m.Now() {
		e.passAt(e.lately())
	}
}

// pass makes a pass.
func (e *engine) pass() {
	e.rouse()
	e.counted()
	e.passAt(e.now())
}

// rouse ends the sleep of a helper that has not noticed that somebody makes passes. While it slept
// each packet would wake its thread, and find that the packet has been taken.
func (e *engine) rouse() {
	if e.asleep && !e.roused {
		e.roused = true
		e.counted()
		e.m.Wake()
	}
}

// counted has the helper know of passes.
func (e *engine) counted() { e.passes.Store(e.passes.Load() + 1) } // mu is held

// passAt makes a pass at an instant, of which the helper does not know, and returns what came.
func (e *engine) passAt(now mono.Time) int {
	n, err := e.l.Progress(now)
	if err != nil && e.broken == nil {
		e.broken = fmt.Errorf("mpi: %w", err)
	}
	if n > 0 {
		for _, w := range e.windows {
			w.addPlaces()
		}
	}
	if e.failures.news {
		e.lookAtNews()
	}
	for w := e.parked; w != nil; {
		next := w.next
		if w.ready != nil && w.over() {
			e.poke(w)
		}
		w = next
	}
	return n
}

// wait drives the engine, or has it driven, until w is over or ctx ends. mu is held.
func (e *engine) wait(ctx context.Context, w *waiter) error {
	drives := false
	defer func() {
		if drives { // It has not come to its end: see operation.fold.
			e.driving = false
		}
		e.handOver()
	}()
	for !w.over() {
		if e.broken != nil {
			return e.broken
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if e.driving {
			e.park(ctx, w)
			continue
		}
		e.driving, drives = true, true
		e.drive(ctx, w)
		e.driving, drives = false, false
	}
	return nil
}

// handOver wakes a parked call, so that it drives on.
func (e *engine) handOver() {
	if !e.driving && e.parked != nil {
		e.poke(e.parked)
	}
}

// park sleeps until w is over, or nobody drives any more, or ctx ends. mu is held, but while it
// sleeps.
func (e *engine) park(ctx context.Context, w *waiter) {
	w.parked, w.next = true, e.parked
	e.parked = w
	wake := e.asleep
	e.mu.Unlock()
	if wake {
		e.m.Wake() // who drives shall look for this call, too
	}
	select {
	case <-w.wake:
	case <-ctx.Done():
	}
	e.lock()
	if w.parked {
		e.unpark(w)
	} else if ctx.Err() != nil {
		select { // poked meanwhile
		case <-w.wake:
		default:
		}
	}
}

// poke wakes a parked call.
func (e *engine) poke(w *waiter) {
	e.unpark(w)
	w.wake <- struct{}{}
}

func (e *engine) unpark(w *waiter) {
	for at := &e.parked; *at != nil; at = &(*at).next {
		if *at == w {
			*at, w.next, w.parked = w.next, nil, false
			return
		}
	}
}

const (
	// lookEvery is how many passes there are between two looks at the context, and counts of passes.
	lookEvery = 16
	// clockEvery is how many passes in vain share a reading of the clock, which costs a good part of
	// what such a pass does.
	clockEvery = 4
)

// drive makes passes until w is over, or ctx ends, or the fabric breaks. mu is held, but for
// moments.
func (e *engine) drive(ctx context.Context, w *waiter) {
	if e.turns != nil {
		e.mu.Unlock()
		e.turns(func() bool { return w.over() || e.broken != nil || ctx.Err() != nil })
		e.lock()
		return
	}
	now := e.lately()
	e.policy.Begin(now)
	for i := 1; ; i++ {
		n := e.passAt(now)
		if w.over() || e.broken != nil {
			e.policy.Found(now)
			return
		}
		if i%lookEvery == 0 {
			e.counted()
			if ctx.Err() != nil {
				return
			}
		}
		switch {
		case e.wanted.Load() > 0:
			e.mu.Unlock()
			runtime.Gosched()
			e.mu.Lock()
		case n > 0:
			now = e.now()
			e.policy.Found(now)
			continue
		default:
			e.rouse()
			if e.idle(ctx, now) == waiting.Poll && i%clockEvery != 0 {
				continue
			}
		}
		now = e.now()
	}
}

// idle does what is to be done after a pass in vain.
func (e *engine) idle(ctx context.Context, now mono.Time) waiting.Action {
	action := e.policy.Empty(now)
	if action == waiting.Yield || action == waiting.Sleep &&
		(!e.sleep(ctx, sleepMost) || e.broken != nil) && e.policy.MayYield(now) {
		before := e.now()
		waiting.Cede()
		after := e.now()
		e.policy.Yielded(after, after.Sub(before))
	}
	return action
}

// end is called when a request has ended: who waits for it is told.
func (e *engine) end(r *Request) {
	w := r.waiter
	if w == nil {
		return
	}
	r.waiter = nil
	if w.left--; w.over() && w.parked {
		e.poke(w)
	}
}

// newWaiter returns a waiter for so many requests.
func (e *engine) newWaiter(left int) *waiter {
	w := e.spare
	if w == nil {
		w = &waiter{wake: make(chan struct{}, 1)}
	} else {
		e.spare = w.next
	}
	w.left, w.next, w.ready = left, nil, nil
	return w
}

func (e *engine) freeWaiter(w *waiter) {
	w.next, w.ready = e.spare, nil
	e.spare = w
}

// peer is a rank of the world; it is connected to when it is needed first.
func (e *engine) peer(rank int) (*pml.Peer, error) {
	if p := e.peers[rank]; p != nil {
		return p, nil
	}
	if why := e.failures.dead[rank]; why != nil {
		return nil, e.gone(rank, why)
	}
	ep, err := e.m.Connect(e.now(), e.names[rank])
	if err != nil {
		return nil, fmt.Errorf("mpi: rank %d: %w", rank, err)
	}
	p := e.l.Peer(ep)
	if p.Context == nil {
		p.Context = &member{rank: rank}
	}
	e.peers[rank] = p
	watchFiles(e, rank, p)
	return p, nil
}

// rankOf is a peer's rank in the world. Of one that has connected by itself, and was let in by
// admit, what it says counts if this side's way to that rank leads to the same endpoint.
func (e *engine) rankOf(p *pml.Peer) (int, error) {
	if m, ok := p.Context.(*member); ok {
		if m.second {
			return 0, ErrStranger
		}
		return m.rank, nil
	}
	rank, ok := e.rankCalled(p.Endpoint().PeerLabel())
	if !ok {
		return 0, ErrStranger
	}
	if q, err := e.peer(rank); err != nil || q != p {
		p.Context = &member{rank: rank, second: true}
		return 0, ErrStranger
	}
	return rank, nil
}

// gone is the error of an operation with a rank that has ended.
func (e *engine) gone(rank int, err error) error {
	return &RankError{Rank: rank, Err: e.way(rank, err)}
}

// setNames takes the names of all ranks' modules.
func (e *engine) setNames(names [][]byte) error {
	for i, name := range names {
		if len(name) == 0 || i == e.rank && !bytes.Equal(name, e.m.Name()) {
			return fmt.Errorf("%w: rank %d has no module", ErrConfig, i)
		}
	}
	e.names, e.peers = names, make([]*pml.Peer, len(names))
	e.m.Admit(e.admit)
	return nil
}
