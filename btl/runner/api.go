package runner

import (
	"context"
	"runtime"
	"slices"

	"gobtl/btl"
)

// Do runs fn with the module, which is its own meanwhile, and returns its error; if that is
// ErrAgain fn is run again later. fn must not block. It runs on this goroutine or on the one that
// drives.
func (r *Runner) Do(ctx context.Context, fn func(m *btl.Module) error) error {
	c := r.newCall(callDo)
	c.fn = fn
	return r.run(ctx, c)
}

// DoFor is Do for one endpoint: while it is refused, it waits behind what else waits for that
// endpoint, and not among the calls for others.
func (r *Runner) DoFor(ctx context.Context, ep *btl.Endpoint, fn func(m *btl.Module) error) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callDo)
	c.ep, c.fn = ep, fn
	return r.run(ctx, c)
}

// Connect returns the endpoint for a module's name once it is connected, or why it could not be.
// When ctx ends first the endpoint goes on connecting: Connect again finds it.
func (r *Runner) Connect(ctx context.Context, name []byte) (*btl.Endpoint, error) {
	c := r.newCall(callConnect)
	c.name = append([]byte(nil), name...)
	return r.reach(ctx, c)
}

// Dial is Connect for a module of which only the address is known: see Module.Dial.
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
// it, or an error if it did not. It waits for resources as long as ctx allows. When ctx ends
// first the message may still be delivered; data may be read for as long as the error says so:
// errors.Is(err, ErrInUse), never for what fits a packet (Limits.SegmentBytes).
func (r *Runner) Send(ctx context.Context, ep *btl.Endpoint, tag btl.Tag, data []byte) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	c := r.newCall(callSend)
	c.ep, c.tag, c.data = ep, tag, data
	return r.runLent(ctx, c, len(data) > r.limits.SegmentBytes)
}

// Put writes data into the peer's region from offset on, and returns when it is in place. When ctx
// ends first, data may still be read: ErrInUse.
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

// nudge has somebody look into the inbox, if nobody drives.
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

// Await runs begin with the module, as Do does, and then waits until a callback calls Wake of the
// Waker that begin was given; it returns the error that Wake was given, or begin's. So a layer
// above waits for an answer: begin sends the question and notes the Waker, the answer's handler
// calls it. When ctx ends first the Waker does nothing any more.
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

// Waker ends an Await, once.
type Waker struct {
	c    *call
	life uint64
}

// Wake has the Await return err. Call it in callbacks and in Do alone. Only the first call counts.
func (w Waker) Wake(err error) {
	// One that was refused is not begun: it stands in a queue, and will be given another Waker.
	if c := w.c; c != nil && c.life.Load() == w.life &&
		(c.pending || c.state.Load()&callBeginning != 0) {
		c.end(err)
	}
}

// Pending is a send or put that goes on while its caller does something else.
type Pending struct {
	r   *Runner
	c   *call
	use uint64 // of the call, which is another's after Wait
}

// Start sends data to the peer's handler of the tag and does not wait for anything: data is lent to
// the Runner until Wait has returned nil or an error other than that of its context.
func (r *Runner) Start(ctx context.Context, ep *btl.Endpoint, tag btl.Tag, data []byte,
) (Pending, error) {
	if err := r.mine(ep); err != nil {
		return Pending{}, err
	}
	c := r.newCall(callSend)
	c.ep, c.tag, c.data = ep, tag, data
	return r.launch(ctx, c)
}

// StartPut is Start of a Put.
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

// Done says whether the operation has ended: then Wait returns at once.
func (p Pending) Done() bool { return p.over() || p.c.ended() }

// over says whether Wait has told the operation's end, or there is none.
func (p Pending) over() bool { return p.c == nil || p.c.uses.Load() != p.use }

// Wait returns the operation's error when it has ended, or that of ctx, if that ends first: then
// the memory is still lent, and Wait must be called again. It must be called until the operation
// has ended, by one goroutine at a time; once more it returns ErrState.
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

// Yield has who drives let other goroutines run when the present pass is over. A callback that has
// started or woken one which shall run at once calls it: that needs no other thread then, and what
// it wants of the Runner is done by the next pass. Call it in callbacks and in Do alone.
func (r *Runner) Yield() { r.woken++ }

// InCallback says whether the caller is a callback of the Runner, or of another one while this one
// is in a callback, too. What waits for the Runner is ErrInHandler there. Any goroutine may call
// it.
func (r *Runner) InCallback() bool { return r.fromHandler() }

// Owns says whether an endpoint is one of this Runner's module. Any goroutine may call it.
func (r *Runner) Owns(ep *btl.Endpoint) bool { return r.mine(ep) == nil }

// mine says why an endpoint is none of this Runner's.
func (r *Runner) mine(ep *btl.Endpoint) error {
	if r == nil {
		return ErrNotStarted
	}
	if !r.hooks.Owns(ep) {
		return btl.ErrEndpoint
	}
	return nil
}

// fromHandler says whether the caller is a callback: what waits there for the driver waits for
// itself. The stack tells, which takes a microsecond or two: so it is not asked where nobody is in
// a callback.
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
