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
	if r.wantToken() {
		r.hooks.Enter(r.now())
		r.takeInbox() // calls queued earlier go first
		r.offer(c)
		return r.await(ctx, c, true)
	}
	if r.fromHandler() {
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

// wantToken tries for a short time to lock the token (the lock whose holder owns the module), and
// reports whether it has succeeded.
func (r *Runner) wantToken() bool {
	if r.token.TryLock() {
		return true
	}
	if r.blocked.Load() > 0 || r.holding.Load() {
		return false
	}
	const tries, rounds = 100, 2 // a poll of the watcher takes about a microsecond
	r.wanted.Add(1)
	defer r.wanted.Add(-1)
	for range rounds {
		for range tries {
			if r.token.TryLock() {
				return true
			}
		}
		runtime.Gosched()
	}
	return false
}

// The method "await" waits for the end of a call. If the argument "holding" is true, the caller
// owns the module, and the method "await" drives the module while it waits.
func (r *Runner) await(ctx context.Context, c *call, holding bool) error {
	slept, searches, left, drives := false, false, false, uint64(1)
	for !c.ended() && ctx.Err() == nil {
		switch {
		case !holding:
			holding = r.block(ctx, c, slept, left)
		case r.stopped:
			if r.takeInbox(); !c.ended() {
				c.end(btl.ErrClosed)
			}
		case r.asked.Load():
			r.leaveToWatcher()
			holding, left = false, true
		default:
			r.drives += drives
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
		r.relieve()
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
	r.relieve()
}

// The method "offer" begins a call, or queues the call if no send buffer is free for it.
func (r *Runner) offer(c *call) {
	if !c.open.Listed() {
		r.open.PushFront(&c.open, c)
	}
	r.refused.offer(r, c)
}

// The method "forget" requests the end of a call whose goroutine has stopped waiting. The request
// ends a call that waits for send buffers, or an Await, and has no effect on all other calls.
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
	was := r.inside.Swap(true)
	now := r.now()
	r.hooks.Advance(now)
	events = r.takeInbox()
	n, err := r.m.Progress(now)
	r.inside.Store(was)
	if events+n > 0 {
		r.longPasses.check(r.now().Sub(now), &r.cfg)
	}
	if err != nil && r.broken == nil {
		r.broken = err
		r.asked.Store(true)
	}
	return events + n
}

func (r *Runner) policy(c *call) *waiting.Policy {
	if c == nil {
		return r.policies[1]
	}
	return r.policies[0]
}

// The method "drive" polls until the call c has ended, or until the caller should sleep. The result
// "sleepy" of the method "drive" reports whether the caller should sleep. If the argument c is nil,
// the method "drive" returns as soon as a call wants to own the module. The argument "goesOn" says
// whether the caller continues its polling after a sleep. The caller must own the module.
//
// One call of the method "pass" can take long, because it can send or receive many packets, or call
// a slow handler. The time without an event is therefore counted from the end of the latest call of
// "pass" with an event. After a new call, the time without an event is counted from the end of the
// first call of "pass", which sends the message of the new call.
func (r *Runner) drive(ctx context.Context, c *call, goesOn bool) (sleepy bool) {
	const checkEvery = 16
	p, last := r.policy(c), r.m.Now()
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
		if r.asked.Load() || c == nil && r.wanted.Load() > 0 ||
			i%checkEvery == 0 && ctx.Err() != nil {
			return false
		}
		if r.woken > 0 {
			r.woken = 0
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

// If the module has work that is due, the method "release" calls Progress. Then the method
// "release" unlocks the token (the lock whose holder owns the module). If no goroutine sleeps in
// the kernel, the method "release" wakes a waiting call, which then drives the module. If the
// watcher (the Runner's own goroutine) waits for the token, the method "release" wakes the watcher.
func (r *Runner) release() {
	for first := true; ; first = false {
		due := r.due()
		if first && due <= r.m.Now() && !r.stopped {
			r.pass()
			due = r.due()
		}
		wake := r.sleeping.Load() && due < r.sleepUntil
		if wake {
			wake = r.hastenSleep()
		}
		r.token.Unlock()
		if wake {
			r.m.Wake()
		}
		if r.watcherWaits.Load() {
			r.relieve()
		}
		for {
			wait := r.blocked.Load() > 0 && !r.poked.Load() && !r.sleeping.Load() && !r.asked.Load()
			if r.inbox.empty() && !wait || !r.token.TryLock() {
				return
			}
			r.takeInbox()
			if wait && !r.poke() {
				runtime.Gosched() // the waiting call is about to block or to return
			}
			break
		}
	}
}

// hastenSleep sends the outstanding acknowledgements, and shortens the sleep of the sleeping
// goroutine to the new deadline. hastenSleep reports whether the caller must wake the sleeping
// goroutine, because its sleep could not be shortened. The caller must own the module.
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

// The method "poke" wakes the goroutine of a blocked call, which then drives the module, and
// returns true, or returns false if no call is blocked. The caller must own the module.
func (r *Runner) poke() bool {
	for c := r.open.First(); c != nil; c = c.open.Next() {
		if c.turn(callBlocked, callPoked) {
			r.blocked.Add(-1)
			r.poked.Store(true)
			c.poked = true
			c.wake <- struct{}{}
			return true
		}
	}
	return false
}

// The method "block" waits until a call has ended, or until the call must drive the module. The
// result "holding" of the method "block" reports whether the caller owns the module after the wait.
// A call that has polled without receiving a packet does not drive the module while a goroutine of
// a different call sleeps in the kernel.
func (r *Runner) block(ctx context.Context, c *call, searched, left bool) (holding bool) {
	r.blocked.Add(1)
	if !c.turn(callRunning, callBlocked) {
		r.blocked.Add(-1) // the call has ended
		return false
	}
	if !left && (!searched || !r.sleeping.Load()) && r.token.TryLock() {
		if c.turn(callBlocked, callRunning) {
			r.blocked.Add(-1)
			return true
		}
		<-c.wake
		r.woke(c)
		return true
	}
	r.wakeHolder()
	if done := ctx.Done(); done == nil {
		<-c.wake // cheaper than a select
	} else {
		select {
		case <-c.wake:
		case <-done:
			if c.turn(callBlocked, callRunning) {
				r.blocked.Add(-1)
				return false
			}
			<-c.wake
		}
	}
	return r.woke(c) && r.token.TryLock()
}

// The goroutine of a woken call calls the method "woke", which reports whether this goroutine must
// drive the module. If the woken call has already ended, its goroutine only locks and releases the
// token (the module's lock), so that the method "release" wakes the next call.
func (r *Runner) woke(c *call) bool {
	if !c.poked {
		return false
	}
	c.poked = false
	c.turn(callPoked, callRunning)
	r.poked.Store(false)
	return true
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
	d, p := r.timeout(), r.policy(c)
	if d <= 0 || d < p.SleepMin() || !r.inbox.empty() || r.broken != nil {
		return true, false
	}
	r.hooks.PublishStats()
	if r.sleeper == nil {
		return true, r.sleepHolding(ctx, c, d, p)
	}
	if r.sleeping.Load() {
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
	r.noteWaits()
	begin := r.now()
	r.sleepUntil = begin.Add(d)
	r.sleeping.Store(true)
	r.token.Unlock()
	if r.inbox.empty() && !r.asked.Load() {
		stop := wakeAtEnd(ctx, c, r.m)
		if err := r.sleeper.Sleep(d); err != nil {
			r.lost.Store(&err)
			r.asked.Store(true)
		}
		stop()
	}
	r.sleeping.Store(false)
	if c != nil {
		c.turn(callAsleep, callRunning)
	}
	if !r.token.TryLock() {
		return false, false
	}
	p.Slept(d, r.now().Sub(begin), 0) // a kernel timer has no slack to subtract
	return true, true
}

// wakeAtEnd ends the sleep of the goroutine of the call c at the end of ctx, until the function
// "stop" is called. If c is nil, ctx has no effect.
func wakeAtEnd(ctx context.Context, c *call, m *btl.Module) (stop func() bool) {
	if c == nil || ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, m.Wake)
}

// noteWaits updates the counters that Runner.Waits returns. The caller must own the module.
func (r *Runner) noteWaits() {
	w := r.policies[0].Counts()
	w.Add(r.policies[1].Counts())
	r.mu.Lock()
	r.waits = w
	r.mu.Unlock()
}
