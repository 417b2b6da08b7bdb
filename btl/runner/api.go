package runner

import (
	"context"
	"runtime"
	"slices"

	"gobtl/btl"
)

// Do runs fn with exclusive use of the module, and returns fn's error; if that is ErrAgain fn is
// run again later. fn must not block. It runs on the calling goroutine or on the driving one.
func (r *Runner) Do(ctx context.Context, fn func(m *btl.Module) error) error {
	c := r.newCall(callDo)
	c.fn = fn
	return r.run(ctx, c)
}

// DoFor is Do for one endpoint: while fn gets ErrAgain, the call queues with the other calls for
// that endpoint, not with those for others.
func (r *Runner) DoFor(ctx context.Context, ep *btl.Endpoint, fn func(m *btl.Module) error) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callDo)
	c.ep, c.fn = ep, fn
	return r.run(ctx, c)
}

// Connect returns the endpoint for a module's name once it is connected, or the error of the
// attempt. If ctx ends first the endpoint goes on connecting, and a later Connect finds it.
func (r *Runner) Connect(ctx context.Context, name []byte) (*btl.Endpoint, error) {
	c := r.newCall(callConnect)
	c.name = append([]byte(nil), name...)
	return r.reach(ctx, c)
}

// Dial is Connect by address instead of name: see Module.Dial.
func (r *Runner) Dial(ctx context.Context, address string) (*btl.Endpoint, error) {
	c := r.newCall(callDial)
	c.name = []byte(address)
	return r.reach(ctx, c)
}

// reach waits for the endpoint of a call that connects.
func (r *Runner) reach(ctx context.Context, c *call) (*btl.Endpoint, error) {
	var ep *btl.Endpoint
	c.found = &ep
	if err := r.run(ctx, c); err != nil {
		return nil, err
	}
	return ep, nil
}

// Send delivers data to the peer's handler of the tag and returns when the peer has acknowledged
// it, or an error if it did not. It waits for resources until ctx ends. Then the message may still
// be delivered. If errors.Is(err, ErrInUse), data may still be read; that is never so for data that
// fits a packet (Limits.SegmentBytes).
func (r *Runner) Send(ctx context.Context, ep *btl.Endpoint, tag btl.Tag, data []byte) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callSend)
	c.ep, c.tag, c.data = ep, tag, data
	return r.runLent(ctx, c, len(data) > r.limits.SegmentBytes)
}

// Put writes data into the peer's region from offset on, and returns when the bytes are in place.
// If ctx ends first, data may still be read: ErrInUse.
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

// nudge ensures that the inbox is emptied if no goroutine drives: it does so, or wakes a sleeping
// holder of the token.
func (r *Runner) nudge() {
	if r.token.TryLock() {
		r.takeInbox()
		r.release()
		return
	}
	r.wakeHolder()
}

// Flush returns when everything sent to the endpoint so far is acknowledged.
func (r *Runner) Flush(ctx context.Context, ep *btl.Endpoint) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callFlush)
	c.ep = ep
	return r.run(ctx, c)
}

// Await runs begin with the module, as Do does, and then waits until a callback calls Wake on the
// Waker that begin got. It returns the error passed to Wake, or begin's. So a higher layer waits
// for an answer: begin sends the request and keeps the Waker, and the answer's handler calls Wake.
// If ctx ends first, later calls of Wake have no effect.
func (r *Runner) Await(ctx context.Context, begin func(m *btl.Module, w Waker) error) error {
	c := r.newCall(callAwait)
	c.await = begin
	return r.run(ctx, c)
}

// AwaitFor is Await for one endpoint, as DoFor is Do.
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

// Waker ends one Await, once.
type Waker struct {
	c    *call
	life uint64
}

// Wake has the Await return err. Call it only in callbacks and in Do. Only the first call counts.
func (w Waker) Wake(err error) {
	// A call that got ErrAgain has not begun: it is queued, and will get another Waker.
	if c := w.c; c != nil && c.life.Load() == w.life &&
		(c.pending || c.state.Load()&callBeginning != 0) {
		c.end(err)
	}
}

// Pending is an asynchronous send or put.
type Pending struct {
	r   *Runner
	c   *call
	use uint64 // of the call, which is another's after Wait
}

// Start sends data to the peer's handler of the tag without waiting. data is lent to the Runner
// until Wait has returned nil, or an error other than that of its context.
func (r *Runner) Start(ctx context.Context, ep *btl.Endpoint, tag btl.Tag, data []byte,
) (Pending, error) {
	if err := r.mine(ep); err != nil {
		return Pending{}, err
	}
	c := r.newCall(callSend)
	c.ep, c.tag, c.data = ep, tag, data
	return r.launch(ctx, c)
}

// StartPut is Start for a Put.
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

// Done says whether the operation has ended, so that Wait returns at once.
func (p Pending) Done() bool { return p.over() || p.c.ended() }

// over says whether Wait has reported the operation's end, or p has no operation.
func (p Pending) over() bool { return p.c == nil || p.c.uses.Load() != p.use }

// Wait returns the operation's error when it has ended, or that of ctx, if ctx ends first: then the
// memory is still lent, and Wait must be called again. Wait must be called until the operation has
// ended, by one goroutine at a time; a call after that returns ErrState.
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

// Yield makes the driver yield its processor after the current pass. A callback that has started or
// woken a goroutine that should run at once calls Yield: the goroutine then needs no other thread,
// and the next pass serves its calls. Call it only in callbacks and in Do.
func (r *Runner) Yield() { r.woken++ }

// InCallback says whether the caller is a callback of this Runner, or of another while this Runner
// is in a callback too. Methods that wait return ErrInHandler there. Any goroutine may call it.
func (r *Runner) InCallback() bool { return r.fromHandler() }

// Owns says whether ep is an endpoint of this Runner's module. Any goroutine may call it.
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

// fromHandler says whether the caller is a callback, which would deadlock if it waited for the
// driver. It inspects the stack, which takes a microsecond or two, so only while a callback runs.
func (r *Runner) fromHandler() bool {
	if !r.inside.Load() {
		return false
	}
	const framesMax = 64 // that are looked at in one go
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
