package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/list"
	"gobtl/internal/waiting"
)

// Config tunes a Runner. The zero value is a good default.
type Config struct {
	// Wait selects how the goroutine that drives the module waits for packets (see Waiting).
	Wait Waiting
	// If Wait is WaitAdaptive, the goroutine that drives the module polls for the time Spin after the
	// latest event, and then sleeps. If Spin is 0, the Runner uses the measured cost of a wake-up,
	// usually 20 to 60 us. A negative Spin means WaitEvent.
	Spin time.Duration
	// Park is the maximum duration of one sleep of the Runner. A Park of 0 means 100 ms.
	Park time.Duration
	// LongPass is the longest acceptable duration of one poll, including the callbacks that the poll
	// calls. During a long callback nothing is received, retransmitted or acknowledged, so that peers
	// might declare this side dead. The Runner counts each poll that takes longer than LongPass (see
	// Runner.LongPasses), and calls OnLongPass for it. A LongPass of 0 means 100 ms.
	LongPass time.Duration
	// OnLongPass, which can be nil, is called after each poll that took longer than LongPass, with the
	// duration of the poll. OnLongPass runs on the goroutine that drives the module, and must not
	// block.
	OnLongPass func(took time.Duration)
	// Setup, which can be nil, runs on the OS thread of the Runner's own goroutine before this
	// goroutine's first poll, for example to pin the thread to a CPU. A goroutine that waits in a
	// method of the Runner drives the module on its own thread, on which Setup does not run.
	Setup func() error
}

// Runner lets any goroutine use a Module. The goroutine that holds a lock, called the token, owns
// the module. If the token is free, a call locks it, performs the call's operation, and drives the
// module until the operation has ended. While no call drives the module, the watcher (a goroutine
// of the Runner) drives it. If the token is locked, a call puts its request into the inbox (a queue
// of calls), which the goroutine that drives the module processes before every poll. A waiting call
// is woken when its operation has ended, or when the call must drive the module itself.
//
// A goroutine that drives the module and receives nothing for some time sleeps in the kernel. If
// the fabric implements fabric.Sleeper, the sleeping goroutine releases the token (the module's
// lock), so that a new call can drive the module without waking the sleeping goroutine.
//
// Handlers, OnDone and OnEndpoint functions, and the functions given to Do and Await, run on the
// goroutine that drives the module, one at a time. A callback is allowed to call methods of the
// Module directly. In a callback, those methods of the Runner that would wait return ErrInHandler.
// If a callback panics or calls runtime.Goexit (as t.FailNow does), the process ends, even if the
// goroutine that drives the module would recover the panic.
type Runner struct {
	m         *btl.Module
	hooks     btl.Hooks
	cfg       Config
	start     time.Time
	limits    btl.Limits
	second    bool // the module belongs to an earlier Runner, and this one has ended
	turn      turn
	callbacks callbacks
	watcher   watcher
	requests
	pauses
	longPasses
	runnerEnd
}

// The type "requests" contains the calls that have not ended. Only the goroutine that owns the
// module may use the fields of the type "requests", except for "inbox" and "posts".
type requests struct {
	inbox      inbox
	posts      posts
	open       list.List[*call] // the calls that have begun
	refused    refusedCalls
	handshakes handshakes
	spare      []*call // reused slice of takeInbox
}

// The type "pauses" is the part of a Runner's state that is needed for waiting and sleeping.
type pauses struct {
	sleeper    fabric.Sleeper // nil if the fabric can only sleep with the token
	hastener   fabric.Hastener
	sleepUntil btl.Time // end of the current sleep; guarded by the token
	policies   policies
	slack      time.Duration
}

// longPasses counts the polls that took longer than Config.LongPass.
type longPasses struct {
	count     atomic.Uint64
	longestNs atomic.Int64
}

// LongPasses returns the number of polls that took longer than Config.LongPass, and the duration of
// the longest poll. A poll is long if a message handler blocks or computes for a long time, or if
// this process gets no CPU time on a busy machine. LongPasses is safe for concurrent use.
func (l *longPasses) LongPasses() (count uint64, longest time.Duration) {
	return l.count.Load(), time.Duration(l.longestNs.Load())
}

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

// New starts a Runner that drives the module m, and that owns m from then on. The caller must
// register its message handlers before New, and must afterwards use m only in functions given to Do
// and in callbacks. The Runner sets the module's callback OnEndpoint and, if a layer has a function
// Room, the callback OnRoom. For each event of an endpoint, the Event functions of the layers are
// called first, and then the function onEvent, unless it is nil. Endpoints without packets in
// flight have no running retransmission timers, so that their timers do not wake the Runner.
//
// A module can have only one Runner. If an earlier Runner drives or has driven the module, New
// returns a Runner that has already ended, and whose methods return ErrTaken. The earlier Runner is
// not affected.
func New(m *btl.Module, cfg Config, onEvent func(*btl.Endpoint, btl.Event, error), layers ...Layer,
) *Runner {
	if !m.Hooks().TakeOver() {
		r := &Runner{m: m, hooks: m.Hooks(), second: true}
		r.done, r.err = make(chan struct{}), ErrTaken
		close(r.done)
		return r
	}
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
		m: m, hooks: m.Hooks(), cfg: cfg, start: time.Now(), limits: m.Limits(), turn: turn{m: m},
		watcher: watcher{
			wait: cfg.Wait, park: cfg.Park, pinned: cfg.Setup != nil, relief: make(chan struct{}, 1),
		},
	}
	r.handshakes.waiting = make(map[*btl.Endpoint][]*call)
	r.posts.hostOf = (*btl.Endpoint).PeerHost
	r.done = make(chan struct{})
	for i := range r.policies.each {
		r.policies.each[i] = waiting.New(cfg.Wait, cfg.Spin, new(waiting.OSThread), r.now())
	}
	r.slack = waiting.TimerSlack()
	r.sleeper, r.hastener = r.hooks.Sleeper()
	r.attach(layers, onEvent)
	go r.watch()
	return r
}

// The method "now" returns the present time of the Runner's clock.
func (r *Runner) now() btl.Time { return btl.Time(time.Since(r.start)) + 1 }

// Stats returns the module's counters.
func (r *Runner) Stats() btl.Stats { return r.m.Stats() }

// Waits returns counters that describe how the Runner has waited. The counters are updated at each
// sleep.
func (r *Runner) Waits() Waits { return r.policies.counts() }

// Done returns a channel that is closed when the Runner has ended.
func (r *Runner) Done() <-chan struct{} { return r.done }

// Err returns the error that has ended the Runner. While the Runner runs, and after an orderly end
// by Close, Err returns nil. Err does not wait for the end of the Runner; see Done.
func (r *Runner) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// Close lets each endpoint deliver its accepted fragments before the endpoint closes. When all
// endpoints have closed, or when ctx is cancelled, Close closes the module. Incomplete operations
// then end with ErrClosed. Close returns when the Runner has ended. If a callback does not return,
// Close returns about one second after ctx was cancelled.
func (r *Runner) Close(ctx context.Context) error {
	if ctx == nil {
		return btl.ErrContext
	}
	if err := usable(r); err != nil {
		return err
	}
	if r.callbacks.onStack() {
		return ErrInHandler
	}
	r.closeMu.Lock()
	r.closers = append(r.closers, ctx)
	r.closeMu.Unlock()
	r.asked.Store(true)
	r.m.Wake()
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

// closeGrace is the time for which Close still waits for the Runner's end after the cancellation of
// ctx.
const closeGrace = time.Second

// The method "over" reports whether the Runner must end. After a call of Close, the first call of
// the method "over" begins to close the endpoints. The caller must own the module.
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

// The method "shutdown" closes the module and ends all calls. The caller must own the module, and
// must ensure that no goroutine of the Runner sleeps in the kernel.
//
//go:noinline
func (r *Runner) shutdown(err error) {
	if r.stopped {
		return
	}
	r.stopped = true
	returned := false
	defer mustReturn(&returned)
	was := r.callbacks.enter()
	if e := r.m.Close(); e != nil {
		err = errors.Join(err, e)
	}
	r.callbacks.leave(was)
	returned = true
	if err != nil {
		r.err = fmt.Errorf("runner: %w", err)
	}
	for _, c := range r.inbox.take(nil) {
		if !c.open.Listed() {
			r.open.PushFront(&c.open, c)
		}
	}
	for c := r.open.First(); c != nil; c = r.open.First() {
		c.refused.Remove()
		c.end(btl.ErrClosed)
	}
	r.refused = refusedCalls{}
	r.handshakes.clear()
	close(r.done)
}
