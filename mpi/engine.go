package mpi

import (
	"bytes"
	"context"
	"errors"
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

// The type "engine" is the state that all communicators of a process share. The mutex mu guards the
// whole engine. The goroutine that holds the mutex mu owns the transport module and the matching
// layer.
type engine struct {
	mu     sync.Mutex
	wanted atomic.Int32 // calls that wait for mu while a call polls

	m       *btl.Module
	l       *pml.Layer
	sleeper fabric.Sleeper // nil: the fabric has none, and sleeps are short
	policy  *waiting.Policy
	slack   time.Duration
	start   time.Time
	latest  mono.Time // latest reading of the clock since lock; 0: none

	clock func() mono.Time       // a simulator's clock; nil: the system's clock
	turns func(over func() bool) // a simulator polls until over; nil: calls poll

	rank  int
	names [][]byte    // names of the ranks' modules
	peers []*pml.Peer // by rank; nil until one is needed

	driving    bool // a call polls the transport
	asleep     bool // a call sleeps on the fabric, without mu
	roused     bool // the sleeper was told to wake up
	sleepUntil mono.Time
	watch      contextWatch // of the context whose end ends a sleep
	waiters    waitQueue
	requests   requestPool
	operations *operation // free operations
	windows    []*window
	replied    bool  // windows have made replies since the latest poll began
	exposed    int   // windows that have memory here
	broken     error // why the engine is unusable: the fabric failed, or the job was finalized
	finalizing bool
	contexts   contextMaker
	used       contextUse // contexts of other ranks, by maker
	failures   failures
	helper     asyncProgress
}

// The type "member" is the value of the field Context in the pml.Peer of a rank.
type member struct {
	rank   int
	second bool // the rank has an earlier endpoint, too
}

const labelPrefix = "rank "

func newEngine(dom fabric.Domain, m *btl.Module, cfg Config, rank int) (*engine, error) {
	e := &engine{
		m: m, rank: rank, contexts: contextMaker{rank: rank}, slack: waiting.TimerSlack(),
		watch: contextWatch{wake: m.Wake},
	}
	e.startClock()
	e.sleeper, _ = dom.(fabric.Sleeper)
	e.policy = waiting.New(cfg.Wait, spinFor, new(waiting.OSThread), e.now())
	return e, makeLayer(e, cfg.Layer)
}

// makeLayer makes the engine's Layer, and registers the engine's message handlers.
func makeLayer(e *engine, cfg pml.Config) (err error) {
	cfg.Number = func(ep *btl.Endpoint) uint32 { return numberAt(e, ep) }
	if e.l, err = pml.New(e.m, cfg, e.peerChanged); err != nil {
		return err
	}
	return e.handleNotices(cfg.Tag)
}

// The method "lock" locks the mutex mu. While a call waits in the method "lock", the call that
// polls the transport releases mu between two polls.
func (e *engine) lock() {
	if !e.mu.TryLock() {
		e.wanted.Add(1)
		e.mu.Lock()
		e.wanted.Add(-1)
	}
	e.latest = 0
}

// The method "unlock" unlocks the mutex mu. If a call sleeps on the fabric, and the deadline of the
// Layer is before the end of this sleep, the method "unlock" wakes the sleeping call.
func (e *engine) unlock() {
	wake := e.asleep && e.l.Deadline() < e.sleepUntil
	e.mu.Unlock()
	if wake {
		e.m.Wake()
	}
}

// If the deadline of the Layer has been reached and no call is polling the transport, the method
// "due" polls the transport once.
func (e *engine) due() {
	if !e.driving && e.l.Deadline() <= e.m.Now() {
		e.passAt(e.lately())
	}
}

// The method "pass" polls the transport once, and handles the received messages.
func (e *engine) pass() {
	e.rouse()
	e.helper.polled()
	e.passAt(e.now())
}

// If the helper goroutine sleeps on the fabric, the method "rouse" wakes the helper goroutine,
// because the caller of "rouse" is going to poll the transport.
func (e *engine) rouse() {
	if e.asleep && !e.roused {
		e.roused = true
		e.helper.polled()
		e.m.Wake()
	}
}

// passAt polls the transport, and handles the messages and events that have arrived. The result of
// passAt is the sum of the first results of the Layer's Progress. The argument "now" is the current
// time. If a window has made replies that have not left yet, passAt polls once more, because the
// caller of passAt might compute for a long time before it polls again. Replies that windows make
// in the second poll are sent by the next call of passAt.
func (e *engine) passAt(now mono.Time) int {
	n := poll(e, now)
	if e.replied && e.l.Deadline() <= e.m.Now() {
		n += poll(e, now)
	}
	if e.failures.news {
		e.lookAtNews()
	}
	e.waiters.wakeReady()
	return n
}

// The function "poll" calls the Layer's Progress once, and returns the first result of Progress. If
// Progress has received packets, or if a connection has ended, the windows then carry out the
// requests that have arrived completely.
func poll(e *engine, now mono.Time) int {
	e.replied = false
	n, err := e.l.Progress(now)
	if err != nil && e.broken == nil {
		e.broken = fmt.Errorf("mpi: %w", err)
	}
	if n > 0 || e.failures.news {
		for _, w := range e.windows {
			w.arrived()
		}
	}
	return n
}

// The method "wait" waits until the condition of the waiter w is fulfilled or ctx ends. During the
// wait, the calling goroutine polls the transport, unless a different goroutine already polls the
// transport. The caller must hold mu.
func (e *engine) wait(ctx context.Context, w *waiter) error {
	drives := false
	defer func() {
		if drives { // A function of the program has panicked or ended the goroutine: see operation.fold.
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

// handOver wakes a call that sleeps in the method "park". The woken call polls the transport in
// place of the caller of handOver.
func (e *engine) handOver() {
	if !e.driving {
		e.waiters.wakeOne()
	}
}

// The method "park" sleeps until the condition of the waiter w is fulfilled, ctx ends, or the call
// that polled the transport stops polling. The caller must hold mu, which the method "park"
// releases during the sleep.
func (e *engine) park(ctx context.Context, w *waiter) {
	e.waiters.add(w)
	wake := e.asleep
	e.mu.Unlock()
	if wake {
		e.m.Wake() // the sleeping call shall poll for this call, too
	}
	select {
	case <-w.wake:
	case <-ctx.Done():
	}
	e.lock()
	e.waiters.remove(w)
}

const (
	// lookEvery is the number of polls of the transport between two checks of the context, and
	// between two updates of the count of polls.
	lookEvery = 16
	// While no message arrives, the clock is read once every clockEvery polls.
	clockEvery = 4
)

// The method "drive" polls the transport until the condition of the waiter w is fulfilled, ctx
// ends, or the fabric fails. The caller must hold mu, which the method "drive" releases between
// polls if a call waits for mu.
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
			e.helper.polled()
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

// When a poll of the transport has found nothing, the method "idle" spins, yields or sleeps.
func (e *engine) idle(ctx context.Context, now mono.Time) waiting.Action {
	action := e.policy.Empty(now)
	if action == waiting.Yield || action == waiting.Sleep &&
		(!e.sleep(ctx, sleepMost) || e.broken != nil) && e.policy.MayYield(now) {
		waiting.CedeBy(e.policy, e.now)
	}
	return action
}

// The method "peer" returns the peer of a world rank. The first call of the method "peer" for a
// rank opens the connection to the rank.
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
		p.Context, p.Number = &member{rank: rank}, numberOf(rank)
	}
	e.peers[rank] = p
	watchFiles(e, rank, p)
	return p, nil
}

// numberAt returns the Number of a new pml.Peer. The first message of a rank that opens a
// connection can arrive before the engine hears of the connection, so numberAt takes the rank from
// the label of the rank's module. If this process already has a connection to the rank of the new
// peer, numberAt returns 0 for this second connection. If this process has opened the connection to
// a peer, the method "peer" sets the peer's Number later.
func numberAt(e *engine, ep *btl.Endpoint) uint32 {
	rank, ok := e.rankCalled(ep.PeerLabel())
	if !ok || e.peers[rank] != nil {
		return 0
	}
	return numberOf(rank)
}

// rankOf returns the world rank of a peer. For a connection that the peer has opened, rankOf reads
// the rank from the label of the peer's module. rankOf trusts the label of a peer's module only if
// this process's own connection to the named rank leads to the same endpoint as the peer's
// connection. For a peer that is not a rank of this job, rankOf returns ErrStranger.
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
		p.Context, p.Number = &member{rank: rank, second: true}, 0
		return 0, ErrStranger
	}
	return rank, nil
}

func (e *engine) gone(rank int, err error) error {
	if why := e.failures.dead[rank]; why != nil && errors.Is(err, btl.ErrClosed) {
		err = why // bury has closed the endpoint
		if !errors.Is(why, pml.ErrPeer) {
			err = fmt.Errorf("%w: %w", pml.ErrPeer, why)
		}
	}
	return &RankError{Rank: rank, Err: e.way(rank, err)}
}

// setNames stores the names of the transport modules of all ranks of the job, and makes this
// process accept connections from these ranks.
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
