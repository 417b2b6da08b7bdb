package runner

import (
	"context"

	"gobtl/btl"
)

// Do runs the function fn with exclusive use of the module, and returns the error of fn. If fn
// returns ErrAgain, Do waits until resources are free, and runs fn again. The function given to Do
// runs on the calling goroutine or on the goroutine that drives the module, and must not block. A
// panic of the function ends the process.
func (r *Runner) Do(ctx context.Context, fn func(m *btl.Module) error) error {
	c := r.newCall(callDo)
	c.fn = fn
	return r.run(ctx, c)
}

// DoFor works like Do, for a function fn that uses only the endpoint ep. If fn returns ErrAgain,
// only later calls for the endpoint ep wait until fn has succeeded.
func (r *Runner) DoFor(ctx context.Context, ep *btl.Endpoint, fn func(m *btl.Module) error) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callDo)
	c.ep, c.fn = ep, fn
	return r.run(ctx, c)
}

// Connect connects to the module with the given name (see btl.Module.Connect), and returns the
// connected endpoint, or the error of the handshake. If ctx is cancelled while Connect waits, the
// handshake continues, and a later Connect returns the same endpoint.
func (r *Runner) Connect(ctx context.Context, name []byte) (*btl.Endpoint, error) {
	c := r.newCall(callConnect)
	c.name = append([]byte(nil), name...)
	return r.reach(ctx, c)
}

// Dial connects like Connect, but to an address instead of a name (see btl.Module.Dial).
func (r *Runner) Dial(ctx context.Context, address string) (*btl.Endpoint, error) {
	c := r.newCall(callDial)
	c.name = []byte(address)
	return r.reach(ctx, c)
}

// The method "reach" performs Connect or Dial, waits until the endpoint is connected, and returns
// the endpoint.
func (r *Runner) reach(ctx context.Context, c *call) (*btl.Endpoint, error) {
	var ep *btl.Endpoint
	c.found = &ep
	if err := r.run(ctx, c); err != nil {
		return nil, err
	}
	return ep, nil
}

// Send delivers data to the peer's handler of the tag, and returns when the peer has acknowledged
// data or the send has failed. If no send buffers are free, Send waits for them. If ctx is
// cancelled while Send waits, the message might still be delivered. If the error of Send matches
// ErrInUse, the transport might still read data. ErrInUse occurs only if data does not fit into one
// packet (Limits.SegmentBytes).
func (r *Runner) Send(ctx context.Context, ep *btl.Endpoint, tag btl.Tag, data []byte) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callSend)
	c.ep, c.tag, c.data = ep, tag, data
	return r.runLent(ctx, c, len(data) > r.limits.SegmentBytes)
}

// Put writes data into the peer's memory region, from the given offset on, and returns when the
// bytes are written. If ctx is cancelled while Put waits, Put returns an error that matches
// ErrInUse, and the transport might still read data.
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

// The method "nudge" ensures that the calls in the inbox (the queue of calls for the goroutine that
// drives the module) are begun soon. If no goroutine drives the module, the method "nudge" begins
// the calls itself. If the goroutine that drives the module sleeps, the method "nudge" wakes it.
func (r *Runner) nudge() {
	if r.turn.token.TryLock() {
		r.takeInbox()
		r.release()
		return
	}
	r.turn.wakeHolder()
}

// Flush waits until the peer has acknowledged everything that was sent through the endpoint before
// the call of Flush.
func (r *Runner) Flush(ctx context.Context, ep *btl.Endpoint) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callFlush)
	c.ep = ep
	return r.run(ctx, c)
}

// Await runs the function "begin" with exclusive use of the module, and then waits until a callback
// calls Wake of the Waker that was passed to the function "begin". The result of Await is the error
// passed to Wake, or the error of the function "begin". For example, the function "begin" given to
// Await sends a request and stores the Waker, and the message handler for the answer calls Wake. If
// ctx is cancelled while Await waits, later calls of Wake have no effect.
func (r *Runner) Await(ctx context.Context, begin func(m *btl.Module, w Waker) error) error {
	c := r.newCall(callAwait)
	c.await = begin
	return r.run(ctx, c)
}

// AwaitFor works like Await, for a function that uses only one endpoint (see DoFor).
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

// Wake makes the waiting Await return err. Wake must be called only in callbacks and in functions
// given to Do. Only the first call of Wake has an effect.
func (w Waker) Wake(err error) {
	if c := w.c; c != nil && c.life.Load() == w.life &&
		(c.pending || c.state.Load()&callBeginning != 0) {
		c.end(err)
	}
}

// Pending is a handle for a send or put that runs asynchronously.
type Pending struct {
	r   *Runner
	c   *call
	use uint64 // of the call, which is reused after Wait
}

// Start sends data to the peer's handler of the tag without waiting. The caller must not change the
// bytes of data until Wait has returned the result of the send. An error of Wait's own context is
// not the result of the send.
func (r *Runner) Start(ctx context.Context, ep *btl.Endpoint, tag btl.Tag, data []byte,
) (Pending, error) {
	if err := r.mine(ep); err != nil {
		return Pending{}, err
	}
	c := r.newCall(callSend)
	c.ep, c.tag, c.data = ep, tag, data
	return r.launch(ctx, c)
}

// StartPut begins a Put without waiting, and returns a Pending for the Put, as Start does for a
// send.
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
	if r.turn.token.TryLock() {
		r.hooks.Enter(r.now())
		r.offer(c)
		r.release()
	} else {
		r.inbox.push(c)
		r.nudge()
	}
	return p, nil
}

// Done reports whether the operation has ended, so that Wait would return immediately.
func (p Pending) Done() bool { return p.over() || p.c.ended() }

// The method "over" returns true if an earlier Wait has returned the result of the operation, or if
// p is the zero value.
func (p Pending) over() bool { return p.c == nil || p.c.uses.Load() != p.use }

// Wait waits until the operation has ended, and returns its error. If ctx is cancelled while Wait
// waits, Wait returns the error of ctx. After the error of ctx, the transport might still use the
// caller's memory, and Wait must be called again. Only one goroutine at a time may call Wait. If an
// earlier Wait has returned the result, Wait returns ErrState.
func (p Pending) Wait(ctx context.Context) error {
	if p.over() {
		return btl.ErrState
	}
	if ctx == nil {
		return btl.ErrContext
	}
	r, c := p.r, p.c
	if !c.ended() && r.callbacks.onStack() {
		return ErrInHandler
	}
	return r.await(ctx, c, !c.ended() && r.turn.want())
}

// Yield makes the goroutine that drives the module call runtime.Gosched after the current poll. A
// callback calls Yield when it has started or woken a goroutine that should run immediately. The
// Gosched lets the started or woken goroutine run on the thread of the driving goroutine, so that
// the next poll can begin the Runner calls of the started or woken goroutine. Yield must be called
// only in callbacks and in functions given to Do.
func (r *Runner) Yield() { r.turn.woken++ }

// InCallback reports whether the caller runs inside a callback of this Runner, where methods that
// wait return ErrInHandler. While a callback of this Runner runs, InCallback returns true even
// inside a callback of another Runner. InCallback is safe for concurrent use.
func (r *Runner) InCallback() bool { return r.callbacks.onStack() }

// Owns reports whether ep is an endpoint of this Runner's module. Owns is safe for concurrent use.
func (r *Runner) Owns(ep *btl.Endpoint) bool { return r.mine(ep) == nil }

// The method "mine" returns nil if the endpoint belongs to the Runner's module and the Runner can
// be used, and otherwise an error.
func (r *Runner) mine(ep *btl.Endpoint) error {
	if err := usable(r); err != nil {
		return err
	}
	if !r.hooks.Owns(ep) {
		return btl.ErrEndpoint
	}
	return nil
}

// The function "usable" returns nil if the Runner drives or has driven its module, and otherwise
// ErrNotStarted or ErrTaken.
func usable(r *Runner) error {
	switch {
	case r == nil:
		return ErrNotStarted
	case r.second:
		return ErrTaken
	}
	return nil
}
