package runner

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/waiting"
)

// Config tunes a Runner; the zero value is a good default.
type Config struct {
	// Wait is how who drives waits; see Waiting.
	Wait Waiting
	// Spin is how long who drives polls after the latest event before it sleeps, if Wait is
	// WaitAdaptive. 0 is learned, about what a wake-up costs: 20 to 60 us; negative is WaitEvent.
	Spin time.Duration
	// Park bounds one sleep. 0 means 100 ms.
	Park time.Duration
	// Setup runs on the watcher's locked OS thread before the first pass, to pin it to a core for
	// example. A call that waits drives the module on its own thread.
	Setup func() error
}

// Runner lets ordinary goroutines use a Module: all its methods may be called from any goroutine,
// at any time. It has no thread of its own in the way of a call:
//
//	            the token: who holds it owns the module
//	                 |
//	    +------------+---------------------+
//	    |                                  |
//	a call that finds it free          the watcher, a goroutine of the Runner,
//	does its work itself, and drives   drives while nobody calls: handlers,
//	the module until it has its end    timers, what calls have left behind
//	    |                                  |
//	    +--- one that finds it taken puts what it wants into the inbox, which the
//	         driver empties with every pass; it is woken when that has ended, or
//	         to drive on when the driver leaves
//
// Who drives and hears nothing for a while sleeps in the kernel without the token (over a
// fabric.Sleeper; over others with it), so that a call that comes meanwhile wakes nobody.
//
// Handlers, OnDone and OnEndpoint functions, and what Do and Await are given, run on the goroutine
// that drives, one at a time. They may use the Module directly, but none of the Runner's methods
// that wait: those return ErrInHandler from there.
type Runner struct {
	m      *btl.Module
	hooks  btl.Hooks
	cfg    Config
	start  time.Time
	limits btl.Limits
	turn
	requests
	pauses
	runnerEnd
}

// turn is whose turn it is to drive.
type turn struct {
	token    sync.Mutex
	inside   atomic.Bool  // who holds it is where callbacks are called: see fromHandler
	blocked  atomic.Int32 // calls that wait to be woken, by their end or to drive
	poked    atomic.Bool  // one of them was woken to drive, and has not yet tried to
	sleeping atomic.Bool  // somebody sleeps in the kernel
	holding  atomic.Bool  // ... with the token
	wanted   atomic.Int32 // calls that try to get the token
	drives   uint64       // calls that have driven
	woken    int          // calls woken since the driver has yielded
}

// requests are the calls that have not ended. All but inbox and posts belongs to the goroutine that
// holds the token.
type requests struct {
	inbox    inbox
	posts    posts
	open     *call // those that have begun: a list
	refused  refusedCalls
	connects map[*btl.Endpoint][]*call
	spare    []*call // scratch
}

// pauses is how who drives waits for the network.
type pauses struct {
	sleeper    fabric.Sleeper // nil: the fabric's sleep needs the token
	hastener   fabric.Hastener
	sleepUntil btl.Time // of who sleeps; under the token
	policies   [2]*waiting.Policy
	slack      time.Duration
	relief     chan struct{} // to the watcher: no call sleeps any more
	napper     napper        // of the watcher

	mu    sync.Mutex
	waits waiting.Counts // under mu
}

// runnerEnd is how far the Runner is on its way to its end.
type runnerEnd struct {
	asked   atomic.Bool // a Close came in, or the fabric broke
	lost    atomic.Pointer[error]
	broken  error // of the fabric; under the token, as the next two
	closing bool  // draining
	stopped bool

	closeMu sync.Mutex
	closers []context.Context // under closeMu: of the Closes that wait
	done    chan struct{}
	err     error // valid when done is closed
}

// callbackEntries is where a callback's stack, or that of a function of Do, has its beginning: see
// fromHandler. None of them may be inlined: the stack would show who calls it.
var callbackEntries = [...]uintptr{
	reflect.ValueOf((*Runner).pass).Pointer(),
	reflect.ValueOf((*Runner).begin).Pointer(),
	reflect.ValueOf((*Runner).shutdown).Pointer(),
}

// New starts to drive a module, which belongs to it from then on: use the module only inside
// Do and from callbacks. Handlers are best set before. It takes over OnEndpoint: give onEvent
// instead, which may be nil and is told behind the layers; and OnRoom, if a layer has Room.
// Completions are not pulled. While the Runner sleeps, the timers of those peers stop to which
// nothing is in flight.
func New(m *btl.Module, cfg Config, onEvent func(*btl.Endpoint, btl.Event, error), layers ...Layer,
) *Runner {
	if cfg.Spin < 0 {
		cfg.Wait, cfg.Spin = WaitEvent, 0
	}
	if cfg.Park == 0 {
		cfg.Park = 100 * time.Millisecond
	}
	r := &Runner{
		m: m, hooks: m.Hooks(), cfg: cfg, start: time.Now(), limits: m.Limits(),
	}
	r.connects = make(map[*btl.Endpoint][]*call)
	r.relief, r.done = make(chan struct{}, 1), make(chan struct{})
	for i := range r.policies {
		r.policies[i] = waiting.New(cfg.Wait, cfg.Spin, new(waiting.OSThread), r.now())
	}
	r.slack = waiting.TimerSlack()
	r.hooks.TakeOver()
	r.sleeper, r.hastener = r.hooks.Sleeper()
	r.attach(layers, onEvent)
	go r.watch()
	return r
}

// now is the Runner's clock.
func (r *Runner) now() btl.Time { return btl.Time(time.Since(r.start)) + 1 }

// Stats returns the module's counters.
func (r *Runner) Stats() btl.Stats { return r.m.Stats() }

// Waits returns how the Runner has waited, as of its latest sleep or operation.
func (r *Runner) Waits() Waits {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waits
}

// Done is closed when the Runner has ended; Err then tells why.
func (r *Runner) Done() <-chan struct{} { return r.done }

// Err returns why the Runner ended: nil after Close, else what broke. It waits for the end.
func (r *Runner) Err() error {
	<-r.done
	return r.err
}

// Close closes every endpoint in order, as long as ctx allows, then the module. What is unfinished
// by then ends with ErrClosed. Close returns when the Runner has ended; if a handler does not
// return, soon after ctx.
func (r *Runner) Close(ctx context.Context) error {
	if ctx == nil {
		return btl.ErrContext
	}
	if r.fromHandler() {
		return ErrInHandler
	}
	r.closeMu.Lock()
	r.closers = append(r.closers, ctx)
	r.closeMu.Unlock()
	r.asked.Store(true)
	r.m.Wake()
	// The Runner ends even if ctx never does: no endpoint drains for longer than CloseTimeout without
	// an ACK.
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	r.m.Wake()
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-r.done:
		return r.err
	case <-grace.C:
		return fmt.Errorf("runner: a handler does not return: %w", ctx.Err())
	}
}

// closeGrace is how long Close waits for the Runner's end after its context's.
const closeGrace = time.Second

// over says whether the Runner shall end: a Close came in, and everything is drained or one of the
// Closes waits no longer. The first time it begins to drain. The token is held.
func (r *Runner) over() bool {
	if !r.asked.Load() {
		return false
	}
	if !r.closing {
		r.closing = true
		r.m.Drain(r.m.Now(), btl.Never)
	}
	r.closeMu.Lock()
	defer r.closeMu.Unlock()
	for _, ctx := range r.closers {
		if ctx.Err() != nil {
			return true
		}
	}
	return r.m.Drained()
}

// shutdown closes the module and ends everything that waits. The token is held, and nobody sleeps.
//
//go:noinline
func (r *Runner) shutdown(err error) {
	if r.stopped {
		return
	}
	r.stopped = true
	was := r.inside.Swap(true)
	if e := r.m.Close(); e != nil {
		err = errors.Join(err, e)
	}
	r.inside.Store(was)
	if err != nil {
		r.err = fmt.Errorf("runner: %w", err)
	}
	for _, c := range r.inbox.take(nil) {
		if !c.begun {
			r.link(c)
		}
	}
	for r.open != nil {
		r.open.end(btl.ErrClosed)
	}
	r.refused = refusedCalls{}
	clear(r.connects)
	close(r.done)
}
