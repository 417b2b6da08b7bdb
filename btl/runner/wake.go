package runner

import (
	"context"
	"runtime"
	"time"

	"gobtl/btl"
	"gobtl/internal/waiting"
)

// The method "run" executes a call and waits until the call has ended or ctx is cancelled. If "run"
// returns the error of ctx, the operation of the call might still be in progress.
func (r *Runner) run(ctx context.Context, c *call) error {
	if err := usable(r); err != nil {
		c.recycle()
		return err
	}
	if err := endOf(ctx); err != nil {
		c.recycle()
		return err
	}
	if r.turn.want() {
		r.hooks.Enter(r.now())
		r.takeInbox() // calls queued earlier go first
		r.offer(c)
		return r.await(ctx, c, true)
	}
	if r.callbacks.onStack() {
		c.recycle()
		return ErrInHandler
	}
	r.inbox.push(c)
	return r.await(ctx, c, false)
}

func endOf(ctx context.Context) error {
	if ctx == nil {
		return btl.ErrContext
	}
	return ctx.Err()
}

// The method "await" waits for the end of a call. If the argument "holding" is true, the caller
// owns the module, and the method "await" drives the module while it waits.
func (r *Runner) await(ctx context.Context, c *call, holding bool) error {
	slept, searches, left, drives := false, false, false, uint64(1)
	for !c.ended() && ctx.Err() == nil {
		switch {
		case !holding:
			holding = r.turn.block(ctx, c, slept, left)
		case r.stopped:
			if r.takeInbox(); !c.ended() {
				c.end(btl.ErrClosed)
			}
		case r.asked.Load():
			r.leaveToWatcher()
			holding, left = false, true
		default:
			r.turn.drives += drives
			drives = 0
			sleepy := r.drive(ctx, c, searches)
			if searches = false; sleepy {
				holding, searches = r.sleep(ctx, c)
				slept = true
			}
		}
	}
	if holding && !c.kept && !c.ended() &&
		(c.kind == callAwait && c.pending || r.refused.remove(c)) {
		c.end(ctx.Err()) // no goroutine drives the module, so nothing else would end the call
	}
	if holding {
		r.release()
	}
	if slept {
		r.watcher.relieve()
	}
	if c.kept && !c.ended() {
		return ctx.Err()
	}
	life := c.life.Load()
	if !c.kept && c.lent && !c.ended() {
		c.free = make(chan struct{})
	}
	if free := c.free; !c.kept && c.abandon() {
		r.forget(c, life)
		if free != nil {
			return &InUse{ctx.Err(), free}
		}
		return ctx.Err()
	}
	err := c.err
	if err != nil || c.does != memoryAtomic {
		c.recycle()
	}
	return err
}

// When the Runner must end, leaveToWatcher releases the token (the right to drive the module) and
// wakes the watcher (the Runner's own goroutine). The watcher drives the module until the module is
// closed, and ends all calls.
func (r *Runner) leaveToWatcher() {
	r.release()
	r.m.Wake()
	r.watcher.relieve()
}

// The method "offer" begins a call, or queues the call if no send buffer is free for it.
func (r *Runner) offer(c *call) {
	if !c.open.Listed() {
		r.open.PushFront(&c.open, c)
	}
	r.refused.offer(r, c)
}

// The method "forget" requests the end of a call whose goroutine has stopped waiting. The method
// "forget" ends a call that waits for send buffers, or an Await, and has no effect on other calls.
func (r *Runner) forget(c *call, life uint64) {
	f := r.newCall(callCancel)
	f.target, f.targetLife, f.left = c, life, true
	f.state.Store(callAbandoned)
	r.inbox.push(f)
	r.nudge()
}

// takeInbox begins the calls in the inbox (the queue of new calls), and those refused calls for
// which send buffers have become free. The result of takeInbox is the number of all calls that it
// has begun or queued.
func (r *Runner) takeInbox() int {
	n := 0
	if !r.inbox.empty() {
		calls := r.inbox.take(r.spare[:0])
		r.posts.learn()
		for _, c := range calls {
			r.offer(c)
		}
		n = len(calls)
		clear(calls)
		r.spare = calls
	}
	if r.refused.count > 0 {
		n += r.refused.tryAgain(r)
	}
	return n
}

// The method "pass" begins the calls in the inbox (the queue of new calls), calls Progress of the
// module once, and returns the number of events.
//
//go:noinline
func (r *Runner) pass() (events int) {
	returned := false
	defer mustReturn(&returned)
	was := r.callbacks.enter()
	now := r.now()
	r.hooks.Advance(now)
	events = r.takeInbox()
	n, err := r.m.Progress(now)
	r.callbacks.leave(was)
	if events+n > 0 {
		r.longPasses.check(r.now().Sub(now), &r.cfg)
	}
	returned = true
	if err != nil && r.broken == nil {
		r.broken = err
		r.asked.Store(true)
	}
	return events + n
}

// The method "drive" polls until the call c has ended, or until the caller should sleep. The result
// "sleepy" of the method "drive" reports whether the caller should sleep. If the argument c is nil,
// the method "drive" returns as soon as a call wants to own the module. If the argument "goesOn" is
// true, the caller continues, after a sleep, the polling of an earlier call of the method "drive".
// The caller must own the module.
//
// The time without an event is counted from the end of the latest call of "pass" with an event,
// because one call of "pass" can take long if it sends or receives many packets, or calls a slow
// handler. After a new call, the time without an event is counted from the end of the first call of
// "pass", which sends the message of the new call.
func (r *Runner) drive(ctx context.Context, c *call, goesOn bool) (sleepy bool) {
	const checkEvery = 16
	p, last := r.policies.of(c), r.m.Now()
	worked := !goesOn // the time without an event counts from the end of the next pass
	if worked {
		p.Begin(last)
	}
	for i := 1; ; i++ {
		n := r.pass()
		if c != nil && c.ended() {
			p.Found(r.m.Now())
			return false
		}
		if r.asked.Load() || c == nil && r.turn.wanted.Load() > 0 ||
			i%checkEvery == 0 && ctx.Err() != nil {
			return false
		}
		if r.turn.woken > 0 {
			r.turn.woken = 0
			runtime.Gosched()
		}
		now := r.m.Now() // when the latest pass began, which is the end of the previous pass
		if n > 0 {
			p.Found(now)
			last, worked = now, true
			continue
		}
		if worked {
			p.Begin(now)
			last, worked = now, i == 1
		}
		if !r.lookOn(p, now, now.Sub(last)) {
			return true
		}
	}
}

// After a poll without an event, lookOn yields the CPU if another thread needs it, and returns true
// if the caller should poll again, or false if the caller should sleep. The argument "vain" of
// lookOn is the time since the latest event.
func (r *Runner) lookOn(p *waiting.Policy, now btl.Time, vain time.Duration) bool {
	const yieldAfter = 5 * time.Microsecond
	switch p.Empty(now) {
	case waiting.Sleep:
		return false
	case waiting.Yield:
		waiting.CedeBy(p, r.now)
	case waiting.Poll:
		if vain > yieldAfter && r.cfg.Wait != WaitBusy && p.MayYield(now) {
			waiting.CedeBy(p, r.now)
		}
	}
	return true
}

// If the module has work that is due, the method "release" calls Progress. The method "release"
// unlocks the token (the lock whose holder owns the module). If no goroutine sleeps in the kernel,
// the method "release" wakes a waiting call, which then drives the module. If the watcher (the
// Runner's own goroutine) waits for the token, the method "release" wakes the watcher.
func (r *Runner) release() {
	for first := true; ; first = false {
		due := r.due()
		if first && due <= r.m.Now() && !r.stopped {
			r.pass()
			due = r.due()
		}
		wake := r.turn.sleeping.Load() && due < r.sleepUntil
		if wake {
			wake = r.hastenSleep()
		}
		r.turn.token.Unlock()
		if wake {
			r.m.Wake()
		}
		r.watcher.released()
		for {
			wait := r.turn.vacant() && !r.asked.Load()
			if r.inbox.empty() && !wait || !r.turn.token.TryLock() {
				return
			}
			r.takeInbox()
			if wait && !r.turn.poke(&r.open) {
				runtime.Gosched() // the waiting call is about to block or to return
			}
			break
		}
	}
}

// hastenSleep sends the outstanding acknowledgements, and shortens the sleep of the sleeping
// goroutine if the Runner must poll before the end of this sleep. hastenSleep reports whether the
// caller must wake the sleeping goroutine, because its sleep could not be shortened. The caller
// must own the module.
func (r *Runner) hastenSleep() (wake bool) {
	r.hooks.AcknowledgeAll()
	due := r.due()
	if due >= r.sleepUntil {
		return false
	}
	d := due.Sub(r.now())
	if r.hastener == nil || d <= 0 {
		return true
	}
	r.hastener.Hasten(d)
	r.sleepUntil = due
	return false
}

// The method "due" returns the time at which the Runner must poll even if no packet has arrived.
// While calls wait for send buffers, or while the Runner is closing, the result of the method "due"
// is at most one millisecond in the future.
func (r *Runner) due() btl.Time {
	const again = time.Millisecond
	if r.refused.count > 0 || r.closing {
		return r.m.Deadline().Min(r.m.Now().Add(again))
	}
	return r.m.Deadline()
}

// The method "timeout" returns the duration until the Runner must poll even if no packet has
// arrived, but at most Config.Park.
func (r *Runner) timeout() time.Duration {
	if due := r.due(); due != btl.Never {
		return min(r.cfg.Park, due.Sub(r.m.Now()))
	}
	return r.cfg.Park
}

// The method "sleep" lets its caller sleep in the kernel until a packet arrives or the module's
// deadline has passed. The argument c of the method "sleep" is the call whose goroutine sleeps, or
// nil for the watcher (the Runner's own goroutine). The caller must own the module. The result
// "holding" of the method "sleep" reports whether the caller owns the module after the sleep, and
// the result "slept" reports whether the caller has slept.
func (r *Runner) sleep(ctx context.Context, c *call) (holding, slept bool) {
	if r.inbox.empty() && r.broken == nil {
		r.hooks.AcknowledgeAll()
	}
	d, p := r.timeout(), r.policies.of(c)
	if d <= 0 || d < p.SleepMin() || !r.inbox.empty() || r.broken != nil {
		return true, false
	}
	r.hooks.PublishStats()
	if r.sleeper == nil {
		return true, r.sleepHolding(ctx, c, d, p)
	}
	if r.turn.sleeping.Load() {
		if c != nil && c.since == 0 {
			c.since = p.Since()
		}
		r.release() // another goroutine sleeps, and will wake this one
		return false, false
	}
	if !r.sleeper.Arm() {
		return true, false
	}
	if c != nil && !c.turn(callRunning, callAsleep) {
		return true, false
	}
	r.policies.note()
	begin := r.now()
	r.sleepUntil = begin.Add(d)
	r.turn.sleeping.Store(true)
	r.turn.token.Unlock()
	if r.inbox.empty() && !r.asked.Load() {
		stop := wakeAtEnd(ctx, c, r.m)
		if err := r.sleeper.Sleep(d); err != nil {
			r.lost.Store(&err)
			r.asked.Store(true)
		}
		stop()
	}
	r.turn.sleeping.Store(false)
	if c != nil {
		c.turn(callAsleep, callRunning)
	}
	if !r.turn.token.TryLock() {
		return false, false
	}
	p.Slept(d, r.now().Sub(begin), 0) // a kernel timer has no slack to subtract
	return true, true
}

// wakeAtEnd makes the end of ctx end the sleep of the goroutine of the call c, unless the function
// "stop" has been called before. If c is nil, ctx has no effect.
func wakeAtEnd(ctx context.Context, c *call, m *btl.Module) (stop func() bool) {
	if c == nil || ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, m.Wake)
}
