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

// Config tunes a Runner. The zero value is a good default.
type Config struct {
	// Wait says how the driving goroutine waits; see Waiting.
	Wait Waiting
	// Spin is how long the driving goroutine polls after the latest event before it sleeps, if
	// Wait is WaitAdaptive. If Spin is 0, the Runner measures the cost of a wake-up, usually 20
	// to 60 us. A negative Spin means WaitEvent.
	Spin time.Duration
	// Park is the maximum duration of one sleep. 0 means 100 ms.
	Park time.Duration
	// LongPass is the longest acceptable duration of one progress pass, including the callbacks
	// that the pass calls. During a progress pass nothing is received, retransmitted or
	// acknowledged, so peers may declare this side dead. A longer progress pass is counted
	// (Runner.LongPasses) and reported to OnLongPass. 0 means 100 ms.
	LongPass time.Duration
	// OnLongPass is called after a long progress pass with the duration of that pass. OnLongPass
	// runs on the driving goroutine, and must not block. OnLongPass may be nil.
	OnLongPass func(took time.Duration)
	// Setup runs before the first progress pass on the OS thread of the Runner's own goroutine,
	// for example to pin the thread to a core. A call that waits drives the module on its own
	// thread.
	Setup func() error
}

// Runner lets ordinary goroutines use a Module. Any goroutine may call all methods of a Runner
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
// A driving goroutine that receives nothing for a while sleeps in the kernel. If the fabric is a
// fabric.Sleeper, the goroutine sleeps without owning the module, so that a new call need not
// wake the goroutine.
//
// Handlers, OnDone and OnEndpoint functions, and the functions given to Do and Await, run on the
// driving goroutine, one at a time. A callback may use the Module directly. The Runner's waiting
// methods return ErrInHandler in a callback.
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

// turn is the state of the token (the lock whose holder owns the module), and of the goroutines
// that wait or sleep for it.
type turn struct {
	token    sync.Mutex
	inside   atomic.Bool  // the token's holder may be in a callback: see fromHandler
	blocked  atomic.Int32 // number of calls in the state callBlocked
	poked    atomic.Bool  // a call was woken to drive, and has not tried to yet
	sleeping atomic.Bool  // a goroutine sleeps in the kernel
	holding  atomic.Bool  // a goroutine sleeps in the kernel with the token
	wanted   atomic.Int32 // number of calls that try to get the token
	drives   uint64       // number of calls that have driven the module
	woken    int          // calls woken since the last yield of the driver
}

// requests holds the calls that have not ended. Only the goroutine that owns the module may use
// the fields other than inbox and posts.
type requests struct {
	inbox    inbox
	posts    posts
	open     *call // list of the calls that have begun
	refused  refusedCalls
	connects map[*btl.Endpoint][]*call
	spare    []*call // reused slice of takeInbox
}

// pauses is the state of the driving goroutine's waits for the network.
type pauses struct {
	sleeper    fabric.Sleeper // nil if the fabric can only sleep with the token
	hastener   fabric.Hastener
	sleepUntil btl.Time // end of the current sleep; guarded by the token
	policies   [2]*waiting.Policy
	slack      time.Duration
	relief     chan struct{} // tells the watcher that no call sleeps
	napper     napper        // of the watcher

	mu    sync.Mutex
	waits waiting.Counts // guarded by mu
}

// longPasses counts the progress passes that took longer than Config.LongPass.
type longPasses struct {
	count     atomic.Uint64
	longestNs atomic.Int64
}

// LongPasses returns the number of progress passes that took longer than Config.LongPass, and the
// duration of the longest one. The usual cause is a handler that blocks or computes. A progress
// pass is also long if a busy machine gives this process no processor. Any goroutine may call
// LongPasses.
func (l *longPasses) LongPasses() (count uint64, longest time.Duration) {
	return l.count.Load(), time.Duration(l.longestNs.Load())
}

// check counts and reports a progress pass that took too long.
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
	asked   atomic.Bool // Close was called, or the fabric failed
	lost    atomic.Pointer[error]
	broken  error // the fabric's error; guarded by the token
	closing bool  // the module drains; guarded by the token
	stopped bool

	closeMu sync.Mutex
	closers []context.Context // contexts of waiting Closes; guarded by closeMu
	done    chan struct{}
	err     error // valid when done is closed
}

// callbackEntries lists the functions from which all callbacks and the functions of Do are
// called: fromHandler searches the stack for them. The listed functions must not be inlined,
// because an inlined function does not appear on the stack.
var callbackEntries = [...]uintptr{
	reflect.ValueOf((*Runner).pass).Pointer(),
	reflect.ValueOf((*Runner).begin).Pointer(),
	reflect.ValueOf((*Runner).shutdown).Pointer(),
}

// New starts a Runner that drives module m and owns m from then on. The caller may use m only
// inside Do and in callbacks, and must register handlers before New. The Runner sets the module's
// OnEndpoint callback. Callers use onEvent instead, which may be nil and is called after the
// layers. The Runner also sets OnRoom if a layer has Room. While the Runner sleeps, the timers of
// peers with nothing in flight stop.
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

// now is the time of the Runner's clock.
func (r *Runner) now() btl.Time { return btl.Time(time.Since(r.start)) + 1 }

// Stats returns the module's counters.
func (r *Runner) Stats() btl.Stats { return r.m.Stats() }

// Waits returns counts of how the Runner has waited, updated at each sleep.
func (r *Runner) Waits() Waits {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waits
}

// Done returns a channel that is closed when the Runner has ended; Err then returns the reason.
func (r *Runner) Done() <-chan struct{} { return r.done }

// Err waits for the Runner's end, and returns the error that ended the Runner, nil after Close.
func (r *Runner) Err() error {
	<-r.done
	return r.err
}

// Close closes all endpoints in order until ctx ends, and then closes the module. Unfinished
// operations end with ErrClosed. Close returns when the Runner has ended. If a handler does not
// return, Close returns about a second after ctx has ended.
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
	// The Runner ends even if ctx never ends, because an endpoint without a new ACK drains for
	// CloseTimeout at most.
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

// closeGrace is how long Close waits for the Runner's end after the context of Close has ended.
const closeGrace = time.Second

// over reports whether the Runner must end: Close was called, and either the module is drained or
// the context of a Close has ended. The first call after Close begins to drain the module. The
// caller must own the module.
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

// shutdown closes the module and ends all calls. The caller must own the module, and no goroutine
// may sleep.
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
