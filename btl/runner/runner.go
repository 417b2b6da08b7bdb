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
	// Wait is how the driving goroutine waits; see Waiting.
	Wait Waiting
	// Spin is how long the driver polls after the latest event before it sleeps, if Wait is
	// WaitAdaptive. 0: it is learned, about the cost of a wake-up, 20 to 60 us; negative is
	// WaitEvent.
	Spin time.Duration
	// Park bounds one sleep. 0 means 100 ms.
	Park time.Duration
	// LongPass bounds one pass of the module, with the handlers and other callbacks that it calls.
	// While a pass lasts nothing is received, sent again or acknowledged, so peers may give this side
	// up. A longer pass is counted (Runner.LongPasses) and told to OnLongPass. 0 means 100 ms.
	LongPass time.Duration
	// OnLongPass is told after a long pass how long it took. It runs on the driving goroutine, and
	// must not block. It may be nil.
	OnLongPass func(took time.Duration)
	// Setup runs on the watcher's locked OS thread before the first pass, to pin it to a core for
	// example. A call that waits drives the module on its own thread.
	Setup func() error
}

// Runner lets ordinary goroutines use a Module: all its methods may be called from any goroutine,
// at any time. No call has to switch to a thread of the Runner:
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
// A driver that receives nothing for a while sleeps in the kernel, without the token if the fabric
// is a fabric.Sleeper (else with it), so that a new call need not wake it.
//
// Handlers, OnDone and OnEndpoint functions, and the functions given to Do and Await, run on the
// driving goroutine, one at a time. They may use the Module directly, but not the Runner's waiting
// methods: those return ErrInHandler in a callback.
type Runner struct {
	m      *btl.Module
	hooks  btl.Hooks
	cfg    Config
	start  time.Time
	limits btl.Limits
	turn
	requests
	pauses
	longPasses
	runnerEnd
}

// turn is the state of the token, and of the goroutines that wait or sleep for it.
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

// requests are the calls that have not ended. All fields but inbox and posts belong to the holder
// of the token.
type requests struct {
	inbox    inbox
	posts    posts
	open     *call // those that have begun: a list
	refused  refusedCalls
	connects map[*btl.Endpoint][]*call
	spare    []*call // scratch
}

// pauses is the state of the driver's waits for the network.
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

// longPasses counts the passes that took longer than Config.LongPass.
type longPasses struct {
	count     atomic.Uint64
	longestNs atomic.Int64
}

// LongPasses returns how many passes took longer than Config.LongPass, and how long the longest one
// took. The usual cause is a handler that blocks or computes. A machine that gives this process no
// processor for as long looks the same. Any goroutine may call it.
func (l *longPasses) LongPasses() (count uint64, longest time.Duration) {
	return l.count.Load(), time.Duration(l.longestNs.Load())
}

// check notes a pass that took too long.
func (l *longPasses) check(took time.Duration, cfg *Config) {
	if took <= cfg.LongPass {
		return
	}
	l.count.Add(1)
	l.longestNs.Store(max(l.longestNs.Load(), int64(took)))
	if cfg.OnLongPass != nil {
		cfg.OnLongPass(took)
	}
}

// runnerEnd is the state of the Runner's shutdown.
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

// callbackEntries are the functions at the base of the stack of a callback, or of a function of Do:
// see fromHandler. They must not be inlined, or the stack would show their callers instead.
var callbackEntries = [...]uintptr{
	reflect.ValueOf((*Runner).pass).Pointer(),
	reflect.ValueOf((*Runner).begin).Pointer(),
	reflect.ValueOf((*Runner).shutdown).Pointer(),
}

// New starts a Runner that drives a module and owns it from then on: use the module only inside Do
// and from callbacks. Set handlers before. The Runner uses the module's OnEndpoint: pass onEvent
// instead, which may be nil and is called after the layers. It also uses OnRoom if a layer has
// Room. Completions are not pulled. While the Runner sleeps, the timers of peers with nothing in
// flight stop.
func New(m *btl.Module, cfg Config, onEvent func(*btl.Endpoint, btl.Event, error), layers ...Layer,
) *Runner {
	if cfg.Spin < 0 {
		cfg.Wait, cfg.Spin = WaitEvent, 0
	}
	if cfg.Park == 0 {
		cfg.Park = 100 * time.Millisecond
	}
	if cfg.LongPass == 0 {
		cfg.LongPass = 100 * time.Millisecond
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

// Err returns the error that ended the Runner, nil after Close. It waits for the Runner's end.
func (r *Runner) Err() error {
	<-r.done
	return r.err
}

// Close closes every endpoint in order, until ctx ends, then the module. Unfinished operations then
// end with ErrClosed. Close returns when the Runner has ended or, if a handler does not return,
// soon after ctx has ended.
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

// closeGrace is how long Close waits for the Runner's end after its context has ended.
const closeGrace = time.Second

// over says whether the Runner shall end: Close was called, and the module is drained or the
// context of a Close has ended. The first such call begins the drain. The caller holds the token.
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

// shutdown closes the module and ends all calls. The caller holds the token, and no goroutine
// sleeps.
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
