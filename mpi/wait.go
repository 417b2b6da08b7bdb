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
	e.watch.set(ctx)
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

// helpOut polls the transport until a call of the program polls the transport or waits for mu. The
// argument "seen" is the count of polls that the helper goroutine has seen. The result of helpOut
// is the present count of polls.
func (e *engine) helpOut(seen uint64) uint64 {
	e.lock()
	defer e.unlock()
	defer e.handOver()
	for e.helper.polls() == seen && !e.driving && e.broken == nil && !e.helper.stopped() {
		e.pass()
		seen = e.helper.polls()
		if !e.waiters.empty() || e.wanted.Load() > 0 {
			break
		}
		e.sleep(context.Background(), sleepMost)
	}
	return e.helper.polls()
}
