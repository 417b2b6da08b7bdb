package runner

import (
	"context"
	"runtime"
	"slices"

	"gobtl/btl"
)

// Do runs fn with exclusive use of the module, and returns fn's error. If that error is ErrAgain,
// Do runs fn again later. Function fn must not block. Function fn runs on the calling goroutine
// or on the goroutine that drives the module.
func (r *Runner) Do(ctx context.Context, fn func(m *btl.Module) error) error {
	c := r.newCall(callDo)
	c.fn = fn
	return r.run(ctx, c)
}

// DoFor does what Do does, for a function that uses one endpoint. While fn returns ErrAgain,
// the call waits behind other calls for that endpoint only.
func (r *Runner) DoFor(ctx context.Context, ep *btl.Endpoint, fn func(m *btl.Module) error) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callDo)
	c.ep, c.fn = ep, fn
	return r.run(ctx, c)
}

// Connect returns the endpoint for a module's name once the endpoint is connected, or the error
// of the attempt. If ctx ends first, the endpoint continues to connect, and a later Connect
// returns it.
func (r *Runner) Connect(ctx context.Context, name []byte) (*btl.Endpoint, error) {
	c := r.newCall(callConnect)
	c.name = append([]byte(nil), name...)
	return r.reach(ctx, c)
}

// Dial does what Connect does, given an address instead of a name: see Module.Dial.
func (r *Runner) Dial(ctx context.Context, address string) (*btl.Endpoint, error) {
	c := r.newCall(callDial)
	c.name = []byte(address)
	return r.reach(ctx, c)
}

// reach runs a Connect or Dial, and returns the connected endpoint.
func (r *Runner) reach(ctx context.Context, c *call) (*btl.Endpoint, error) {
	var ep *btl.Endpoint
	c.found = &ep
	if err := r.run(ctx, c); err != nil {
		return nil, err
	}
	return ep, nil
}

// Send delivers data to the peer's handler of the tag, and returns when the peer has
// acknowledged data or the send has failed. Send waits for resources until ctx ends; the
// message may still be delivered after that. If errors.Is(err, ErrInUse), data may still be
// read by the transport. ErrInUse occurs only if data does not fit in one packet
// (Limits.SegmentBytes).
func (r *Runner) Send(ctx context.Context, ep *btl.Endpoint, tag btl.Tag, data []byte) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callSend)
	c.ep, c.tag, c.data = ep, tag, data
	return r.runLent(ctx, c, len(data) > r.limits.SegmentBytes)
}

// Put writes data into the peer's memory region at an offset, and returns when the bytes are
// written. If ctx ends first, data may still be read by the transport, and the error is
// ErrInUse.
func (r *Runner) Put(ctx context.Context, ep *btl.Endpoint, data []byte, target btl.Handle,
	offset uint64,
) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callSend)
	c.ep, c.data, c.does, c.to, c.off = ep, data, memoryPut, target, offset
	return r.runLent(ctx, c, true)
}

func (r *Runner) runLent(ctx context.Context, c *call, lent bool) error {
	c.lent = lent
	return r.run(ctx, c)
}

// nudge ensures that the inbox (the queue of calls for the driving goroutine) is processed even
// if no goroutine drives the module. nudge processes the inbox itself, or wakes a sleeping
// goroutine that drives.
func (r *Runner) nudge() {
	if r.token.TryLock() {
		r.takeInbox()
		r.release()
		return
	}
	r.wakeHolder()
}

// Flush returns when the peer has acknowledged everything sent to the endpoint so far.
func (r *Runner) Flush(ctx context.Context, ep *btl.Endpoint) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callFlush)
	c.ep = ep
	return r.run(ctx, c)
}

// Await runs begin with the module, as Do does, and waits until a callback calls Wake on the
// Waker that begin received. Await returns the error passed to Wake, or the error of begin. A
// higher layer uses Await to wait for an answer: begin sends the request and stores the Waker,
// and the handler of the answer calls Wake. If ctx ends first, later calls of Wake have no
// effect.
func (r *Runner) Await(ctx context.Context, begin func(m *btl.Module, w Waker) error) error {
	c := r.newCall(callAwait)
	c.await = begin
	return r.run(ctx, c)
}

// AwaitFor does what Await does, for one endpoint: see DoFor.
func (r *Runner) AwaitFor(ctx context.Context, ep *btl.Endpoint,
	begin func(m *btl.Module, w Waker) error,
) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callAwait)
	c.ep, c.await = ep, begin
	return r.run(ctx, c)
}

// Waker ends one call of Await.
type Waker struct {
	c    *call
	life uint64
}

// Wake makes Await return err. Wake may be called only in callbacks and in Do. Only the first
// call of a Waker has an effect.
func (w Waker) Wake(err error) {
	// A call that got ErrAgain is queued and will get another Waker.
	if c := w.c; c != nil && c.life.Load() == w.life &&
		(c.pending || c.state.Load()&callBeginning != 0) {
		c.end(err)
	}
}

// Pending is a send or put that runs asynchronously.
type Pending struct {
	r   *Runner
	c   *call
	use uint64 // of the call, which is another's after Wait
}

// Start sends data to the peer's handler of the tag without waiting. The caller must not change
// data until Wait has returned nil, or an error that is not the error of its context.
func (r *Runner) Start(ctx context.Context, ep *btl.Endpoint, tag btl.Tag, data []byte,
) (Pending, error) {
	if err := r.mine(ep); err != nil {
		return Pending{}, err
	}
	c := r.newCall(callSend)
	c.ep, c.tag, c.data = ep, tag, data
	return r.launch(ctx, c)
}

// StartPut does what Start does, for a Put.
func (r *Runner) StartPut(ctx context.Context, ep *btl.Endpoint, data []byte, target btl.Handle,
	offset uint64,
) (Pending, error) {
	if err := r.mine(ep); err != nil {
		return Pending{}, err
	}
	c := r.newCall(callSend)
	c.ep, c.data, c.does, c.to, c.off = ep, data, memoryPut, target, offset
	return r.launch(ctx, c)
}

func (r *Runner) launch(ctx context.Context, c *call) (Pending, error) {
	if err := endOf(ctx); err != nil {
		c.recycle()
		return Pending{}, err
	}
	c.kept = true
	p := Pending{r, c, c.uses.Load()}
	if r.token.TryLock() {
		r.hooks.Enter(r.now())
		r.offer(c)
		r.release()
	} else {
		r.inbox.push(c, maxInt)
		r.nudge()
	}
	return p, nil
}

// Done reports whether the operation has ended, so that Wait returns at once.
func (p Pending) Done() bool { return p.over() || p.c.ended() }

// over reports whether Wait has already returned the operation's result, or p is the zero
// value.
func (p Pending) over() bool { return p.c == nil || p.c.uses.Load() != p.use }

// Wait waits until the operation has ended, and returns its error. If ctx ends first, Wait
// returns the error of ctx; the caller's memory is still in use after an error of ctx, and Wait
// must be called again. Only one goroutine at a time may call Wait. A call of Wait after the
// operation's result was returned returns ErrState.
func (p Pending) Wait(ctx context.Context) error {
	if p.over() {
		return btl.ErrState
	}
	if ctx == nil {
		return btl.ErrContext
	}
	r, c := p.r, p.c
	if !c.ended() && r.fromHandler() {
		return ErrInHandler
	}
	return r.await(ctx, c, !c.ended() && r.wantToken())
}

// Yield makes the driving goroutine yield its processor after the current progress pass. A
// callback calls Yield when it has started or woken a goroutine that should run at once. The
// woken goroutine needs no other thread, and the next progress pass serves the goroutine's calls.
// Yield may be called only in callbacks and in Do.
func (r *Runner) Yield() { r.woken++ }

// InCallback reports whether the caller runs inside a callback of this Runner. Methods that wait
// return ErrInHandler inside a callback. The result of InCallback is also true inside a callback
// of another Runner while a callback of this Runner runs. Any goroutine may call InCallback.
func (r *Runner) InCallback() bool { return r.fromHandler() }

// Owns reports whether ep is an endpoint of this Runner's module. Any goroutine may call Owns.
func (r *Runner) Owns(ep *btl.Endpoint) bool { return r.mine(ep) == nil }

// mine returns an error if ep is not an endpoint of this Runner's module.
func (r *Runner) mine(ep *btl.Endpoint) error {
	if r == nil {
		return ErrNotStarted
	}
	if !r.hooks.Owns(ep) {
		return btl.ErrEndpoint
	}
	return nil
}

// fromHandler reports whether the caller runs inside a callback; a waiting callback would
// deadlock. fromHandler inspects the stack only while a callback runs, because the inspection
// takes one or two microseconds.
func (r *Runner) fromHandler() bool {
	if !r.inside.Load() {
		return false
	}
	const framesMax = 64 // frames inspected at once
	var pcs [framesMax]uintptr
	for skip := 2; ; skip += framesMax {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && slices.Contains(callbackEntries[:], f.Entry()) {
				return true
			}
		}
		if n < framesMax {
			return false
		}
	}
}
