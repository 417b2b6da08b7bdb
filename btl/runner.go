package btl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gobtl/fabric"
	"gobtl/internal/waiting"
)

// RunnerConfig tunes a Runner; the zero value is a good default.
type RunnerConfig struct {
	// Wait is how the loop waits; see Waiting.
	Wait Waiting
	// Spin is how long the loop polls after the latest event before it sleeps, if Wait is
	// WaitAdaptive. 0 is learned, about what a wake-up costs: 20 to 60 us; negative is WaitEvent.
	Spin time.Duration
	// Park bounds one sleep. 0 means 100 ms.
	Park time.Duration
	// Setup runs on the loop's locked OS thread before the first pass, to pin it to a core for
	// example.
	Setup func() error
}

// Runner drives a Module on a goroutine of its own, so that ordinary goroutines can use it. It owns
// the OS thread, the clock and the idle strategy. All its methods may be called from any goroutine;
// handlers, OnDone and OnEndpoint functions run on the loop's goroutine and must not call the
// Runner's blocking methods, but may use the Module directly.
type Runner struct {
	m       *Module
	cfg     RunnerConfig
	start   time.Time
	mu      sync.Mutex
	inbox   []*operation
	stopped bool
	retry   []*operation // the loop's: refused with ErrAgain, in order
	swap    []*operation // the loop's: scratch
	spare   []*operation // the loop's: scratch
	waiting map[*Endpoint][]*operation
	closers []context.Context // under mu: of the Closes that wait
	closing bool              // the loop's: draining
	policy  *waiting.Policy   // the loop's
	waits   waiting.Counts    // under mu: the policy's, as of the latest sleep or find
	asleep  atomic.Bool       // or about to be: who has something for the loop must wake it
	done    chan struct{}
	err     error
}

// operation is a request to the loop. begin runs there, again and again while it returns ErrAgain;
// the operation ends with another error, or later through end.
type operation struct {
	ctx   context.Context
	begin func(*operation) (pending bool, err error)
	ended chan error // buffered: the loop never waits
}

func (o *operation) end(err error) { o.ended <- err }

// NewRunner starts the loop of a module, which belongs to it from then on: use the module only
// inside Do and from callbacks. It takes over OnEndpoint; give onEvent instead (may be nil).
func NewRunner(m *Module, cfg RunnerConfig, onEvent func(*Endpoint, Event, error)) *Runner {
	if cfg.Spin < 0 {
		cfg.Wait, cfg.Spin = WaitEvent, 0
	}
	set(&cfg.Park, 100*time.Millisecond)
	r := &Runner{
		m: m, cfg: cfg, start: time.Now(),
		waiting: make(map[*Endpoint][]*operation),
		done:    make(chan struct{}),
	}
	m.PullCompletions(false)
	m.OnEndpoint(func(ep *Endpoint, ev Event, err error) {
		r.connected(ep, err)
		if onEvent != nil {
			onEvent(ep, ev, err)
		}
	})
	go r.loop()
	return r
}

// now is the loop's clock.
func (r *Runner) now() Time { return Time(time.Since(r.start)) + 1 }

func (r *Runner) loop() {
	runtime.LockOSThread() // ends with the goroutine: its affinity may have been changed
	var err error
	if r.cfg.Setup != nil {
		err = r.cfg.Setup()
	}
	defer waiting.Enter()()
	r.policy = waiting.New(r.cfg.Wait, r.cfg.Spin, new(waiting.OSThread), r.now())
	slack := waiting.TimerSlack()
	for early := false; err == nil; {
		now := r.now()
		r.m.at(now) // what the operations do, they do now
		busy := r.takeInbox()
		var n int
		n, err = r.m.Progress(now)
		if r.closed() {
			break
		}
		if n > 0 || busy {
			r.policy.Found(now)
			early = false
			continue
		}
		if early {
			early = false
			r.policy.InVain()
		}
		switch r.policy.Empty(now) {
		case waiting.Poll:
		case waiting.Yield:
			waiting.Cede()
		case waiting.Sleep:
			if err == nil {
				early, err = r.park(now, slack)
			}
		}
	}
	r.shutdown(err)
}

// closed begins to drain when a Close came in, and says whether the loop shall end: everything is
// drained, or one of the Closes waits no longer.
func (r *Runner) closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.closers) == 0 {
		return false
	}
	if !r.closing {
		r.closing = true
		r.m.Drain(r.m.Now(), Never)
	}
	for _, ctx := range r.closers {
		if ctx.Err() != nil {
			return true
		}
	}
	return r.m.Drained()
}

// park sleeps until something may have arrived, an operation comes in, or the module's next
// deadline; early says that it was not the latter.
func (r *Runner) park(now Time, slack time.Duration) (early bool, err error) {
	d := r.cfg.Park
	if next := r.m.Deadline(); next != Never {
		d = min(d, next.Sub(now))
	}
	if len(r.retry) > 0 || r.closing {
		d = min(d, time.Millisecond)
	}
	if d <= 0 || d < r.policy.SleepMin() {
		return false, nil
	}
	r.asleep.Store(true)
	defer r.asleep.Store(false)
	r.mu.Lock()
	r.waits = r.policy.Counts()
	called := len(r.inbox) > 0 || len(r.closers) > 0 && !r.closing
	r.mu.Unlock()
	if called { // by somebody who has not seen yet that this sleeps
		return false, nil
	}
	begin := r.now()
	err = r.m.Wait(d)
	if errors.Is(err, fabric.ErrNotSupported) {
		d = min(d, 100*time.Microsecond)
		time.Sleep(d)
		err = nil
	}
	took := r.now().Sub(begin)
	r.policy.Slept(d, took, slack)
	return took < d, err
}

// call ends a sleep of the loop, or keeps it from falling asleep: after what it shall see was put
// where it looks. While it is awake this costs nothing, and of many callers one wakes it.
func (r *Runner) call() {
	if r.asleep.CompareAndSwap(true, false) {
		r.m.Wake()
	}
}

// takeInbox begins the operations that have come in, after those that wait for resources.
func (r *Runner) takeInbox() bool {
	r.mu.Lock()
	in := r.inbox
	r.inbox = r.swap[:0]
	if len(in) > 0 {
		r.waits = r.policy.Counts()
	}
	r.mu.Unlock()
	r.swap = in
	if len(in) == 0 && len(r.retry) == 0 {
		return false
	}
	queue := append(r.retry, in...)
	clear(in)
	r.retry = r.spare[:0]
	r.spare = queue
	for _, o := range queue {
		if err := o.ctx.Err(); err != nil {
			o.end(err)
			continue
		}
		pending, err := o.begin(o)
		switch {
		case errors.Is(err, ErrAgain):
			r.retry = append(r.retry, o)
		case err != nil || !pending:
			o.end(err)
		}
	}
	progress := len(r.retry) < len(queue)
	clear(queue)
	return progress
}

// submit has the loop run an operation and waits for its end.
func (r *Runner) submit(ctx context.Context, begin func(*operation) (bool, error)) error {
	o := &operation{ctx: ctx, begin: begin, ended: make(chan error, 1)}
	r.mu.Lock()
	if r.stopped {
		r.mu.Unlock()
		return ErrClosed
	}
	r.inbox = append(r.inbox, o)
	r.mu.Unlock()
	r.call()
	select {
	case err := <-o.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-r.done:
		select {
		case err := <-o.ended:
			return err
		default:
			return ErrClosed
		}
	}
}

// Do runs fn on the loop's goroutine and returns its error. With ErrAgain it is run again later.
func (r *Runner) Do(ctx context.Context, fn func(m *Module) error) error {
	return r.submit(ctx, func(*operation) (bool, error) { return false, fn(r.m) })
}

// Connect returns the endpoint for a module's name once it is connected, or why it could not be.
func (r *Runner) Connect(ctx context.Context, name []byte) (*Endpoint, error) {
	var ep *Endpoint
	err := r.submit(ctx, func(o *operation) (bool, error) {
		e, err := r.m.Connect(r.m.Now(), name)
		if err != nil {
			return false, err
		}
		ep = e
		if e.Connected() {
			return false, nil
		}
		r.waiting[e] = append(r.waiting[e], o)
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return ep, nil
}

// connected ends the Connects that wait for an endpoint.
func (r *Runner) connected(ep *Endpoint, err error) {
	if err == nil && !ep.Connected() {
		err = ep.Err()
	}
	for _, o := range r.waiting[ep] {
		o.end(err)
	}
	delete(r.waiting, ep)
}

// Send delivers a copy of data to the peer's handler of the tag and returns when the peer has
// acknowledged it, or an error if it did not. It waits for resources as long as ctx allows. When
// ctx ends first, the message may still be delivered.
func (r *Runner) Send(ctx context.Context, ep *Endpoint, tag Tag, data []byte) error {
	data = append([]byte(nil), data...) // the caller may take back its memory when ctx ends
	return r.submit(ctx, func(o *operation) (bool, error) {
		f, err := ep.Prepare(tag, data)
		if err != nil {
			return false, err
		}
		return r.send(o, ep, f)
	})
}

// Put writes a copy of data into the peer's region and returns when it is in place.
func (r *Runner) Put(ctx context.Context, ep *Endpoint, data []byte, target Handle,
	offset uint64,
) error {
	data = append([]byte(nil), data...) // the caller may take back its memory when ctx ends
	return r.submit(ctx, func(o *operation) (bool, error) {
		f, err := ep.PreparePut(data, target, offset)
		if err != nil {
			return false, err
		}
		return r.send(o, ep, f)
	})
}

func (r *Runner) send(o *operation, ep *Endpoint, f *Fragment) (bool, error) {
	f.Signal = true
	f.OnDone = func(_ *Fragment, err error) { o.end(err) }
	if _, err := ep.Send(ep.Now(), f); err != nil {
		return false, errors.Join(err, ep.Free(f))
	}
	return true, nil
}

// Flush returns when everything sent to the endpoint so far is acknowledged.
func (r *Runner) Flush(ctx context.Context, ep *Endpoint) error {
	return r.submit(ctx, func(o *operation) (bool, error) {
		ep.Flush(ep.Now(), o.end)
		return true, nil
	})
}

// Stats returns the module's counters.
func (r *Runner) Stats() Stats { return r.m.Stats() }

// Waits returns how the loop has waited, as of its latest sleep or operation.
func (r *Runner) Waits() Waits {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waits
}

// Done is closed when the loop has ended; Err then tells why.
func (r *Runner) Done() <-chan struct{} { return r.done }

// Err returns why the loop ended: nil after Close, else what broke. Valid once Done is closed.
func (r *Runner) Err() error {
	<-r.done
	return r.err
}

// Close closes every endpoint in order, as long as ctx allows, then the module. What is unfinished
// by then ends with ErrClosed. Close returns when the loop has ended.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closers = append(r.closers, ctx)
	r.mu.Unlock()
	r.call()
	// The loop ends even if ctx never does: no endpoint drains for longer than CloseTimeout without
	// an ACK.
	<-r.done
	return r.err
}

// shutdown closes the module and ends everything that waits.
func (r *Runner) shutdown(err error) {
	r.mu.Lock()
	r.stopped = true
	left := append(r.retry, r.inbox...)
	r.inbox = nil
	r.mu.Unlock()
	if e := r.m.Close(); e != nil {
		err = errors.Join(err, e)
	}
	if err != nil {
		r.err = fmt.Errorf("btl: runner: %w", err)
	}
	for _, o := range left {
		o.end(ErrClosed)
	}
	for _, ops := range r.waiting {
		for _, o := range ops {
			o.end(ErrClosed)
		}
	}
	close(r.done)
}
