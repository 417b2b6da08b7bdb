package mpi

import (
	"context"
	"time"

	"gobtl/internal/mono"
)

const (
	// sleepMost is the longest sleep of the helper goroutine, and of a call that waits for
	// messages.
	sleepMost = 100 * time.Millisecond
	// If no call has polled the transport for the time helpEvery, the helper goroutine polls the
	// transport.
	helpEvery = 5 * time.Millisecond
	// A call that waits first polls for the time spinFor, and then sleeps. The time spinFor is several
	// times the cost of a wake-up, because a rank that sleeps delays all ranks that wait for its
	// messages.
	spinFor = 300 * time.Microsecond
	// napMost is the longest sleep with a fabric that cannot wake a sleeping call.
	napMost = 100 * time.Microsecond
)

func (e *engine) startClock() { e.start = time.Now() }

// The method "now" reads the clock. The caller must hold mu.
func (e *engine) now() mono.Time {
	if e.clock != nil {
		return e.clock()
	}
	e.latest = mono.Time(time.Since(e.start)) + 1
	return e.latest
}

// The function "later" calls the function fn on a new goroutine when the given time has passed.
func later(after time.Duration, fn func()) { time.AfterFunc(after, fn) }

// The method "lately" returns the latest reading of the clock since mu was locked. If the clock has
// not been read since mu was locked, the method "lately" reads the clock. The method "lately" may
// be called only if little time has passed since the goroutine locked mu. The caller must hold mu.
func (e *engine) lately() mono.Time {
	if e.latest == 0 {
		return e.now()
	}
	return e.latest
}

// The method "sleep" sleeps until data might have arrived, until the module has work to do, or for
// at most the time "most". The result of the method "sleep" tells whether it has slept. The method
// "sleep" does not sleep if the module already has work to do, or if the sleep would be too short
// to be useful. The caller must hold mu, which the method "sleep" releases during the sleep.
func (e *engine) sleep(ctx context.Context, most time.Duration) bool {
	begin := e.now()
	d := most
	if next := e.l.Deadline(); next != mono.Never {
		d = min(d, next.Sub(begin))
	}
	if d <= 0 || d < e.policy.SleepMin() {
		return false
	}
	if e.sleeper == nil {
		d = min(d, napMost)
		e.mu.Unlock()
		time.Sleep(d)
		e.mu.Lock()
		e.policy.Slept(d, e.now().Sub(begin), e.slack)
		return true
	}
	if e.asleep {
		e.m.Wake()
		e.mu.Unlock()
		time.Sleep(napMost)
		e.mu.Lock()
		return true
	}
	e.watch(ctx)
	if e.wanted.Load() > 0 || ctx.Err() != nil || !e.sleeper.Arm() {
		return false
	}
	e.asleep, e.roused, e.sleepUntil = true, false, begin.Add(d)
	e.mu.Unlock()
	err := e.sleeper.Sleep(d)
	e.lock()
	e.asleep = false
	if err != nil && e.broken == nil {
		e.broken = err
	}
	e.policy.Slept(d, e.now().Sub(begin), 0) // a kernel timer adds no slack
	return true
}

// The method "watch" arranges that the end of ctx ends the sleep in progress, or the next sleep if
// no call sleeps. The caller must hold mu.
func (e *engine) watch(ctx context.Context) {
	done := ctx.Done()
	if done == nil || done == e.watched {
		return
	}
	e.unwatch()
	e.watched, e.watching = done, context.AfterFunc(ctx, e.m.Wake)
}

// The method "unwatch" undoes the method "watch", so that the end of the context no longer ends a
// sleep. The caller must hold mu.
func (e *engine) unwatch() {
	if e.watched != nil {
		e.watching()
	}
	e.watched, e.watching = nil, nil
}

// startHelper starts the helper goroutine, which ends when the channel "quit" is closed.
func (e *engine) startHelper() { go e.help() }

// The method "help" polls the transport whenever no call polls it, and returns when the channel
// "quit" is closed.
func (e *engine) help() {
	defer close(e.ended)
	tick := time.NewTicker(helpEvery)
	defer tick.Stop()
	for seen := uint64(0); ; {
		select {
		case <-e.quit:
			return
		case <-tick.C:
		}
		if n := e.passes.Load(); n != seen { // Another call polls, so mu is not locked.
			seen = n
			continue
		}
		seen = e.helpOut(seen)
	}
}

// helpOut polls the transport until a call of the program polls the transport or waits for mu. The
// result of helpOut is the engine's count of polls.
func (e *engine) helpOut(seen uint64) uint64 {
	e.lock()
	defer e.unlock()
	defer e.handOver()
	for e.passes.Load() == seen && !e.driving && e.broken == nil && !e.stopped() {
		e.pass()
		seen = e.passes.Load()
		if e.parked != nil || e.wanted.Load() > 0 {
			break
		}
		e.sleep(context.Background(), sleepMost)
	}
	return e.passes.Load()
}

func (e *engine) stopped() bool {
	select {
	case <-e.quit:
		return true
	default:
		return false
	}
}
