package mpi

import (
	"context"
	"time"

	"gobtl/internal/mono"
)

const (
	// sleepMost bounds a sleep of a call whose context nobody watches.
	sleepMost = 100 * time.Millisecond
	// helpEvery is for how long nobody makes a pass until the helper does.
	helpEvery = 5 * time.Millisecond
	// spinFor is for how long a call polls, or yields where the processor is shared, before it sleeps.
	// It is several times a wake-up: one rank of a job that sleeps has those that wait for it sleep,
	// too, and then all operations last as long as wake-ups.
	spinFor = 300 * time.Microsecond
	// napMost is how long a sleep is where the fabric cannot wake anybody.
	napMost = 100 * time.Microsecond
)

// startClock has time begin now.
func (e *engine) startClock() { e.start = time.Now() }

// now reads the clock. mu is held.
func (e *engine) now() mono.Time {
	if e.clock != nil {
		return e.clock()
	}
	e.latest = mono.Time(time.Since(e.start)) + 1
	return e.latest
}

// later calls fn after a time.
func later(after time.Duration, fn func()) { time.AfterFunc(after, fn) }

// lately is an instant at, or a moment after, which mu was taken: for what begins with it, and has
// not computed or waited since. mu is held.
func (e *engine) lately() mono.Time {
	if e.latest == 0 {
		return e.now()
	}
	return e.latest
}

// sleep sleeps until something may have come, the module has something to do, or for most. It
// reports false if it did not, for there was something, or somebody sleeps already. mu is held, but
// while it sleeps.
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
		// The helper sleeps. It makes room: whoever waits hears of arrivals first.
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
	e.policy.Slept(d, e.now().Sub(begin), 0) // a timer of the kernel has none
	return true
}

// watch has the end of ctx end a sleep, that which goes on or else the next one. It goes on when
// the sleep is over: calls mostly have the context of the one before, and a watch allocates. mu is
// held.
func (e *engine) watch(ctx context.Context) {
	done := ctx.Done()
	if done == nil || done == e.watched {
		return
	}
	e.unwatch()
	e.watched, e.watching = done, context.AfterFunc(ctx, e.m.Wake)
}

// unwatch ends the watch. mu is held.
func (e *engine) unwatch() {
	if e.watched != nil {
		e.watching()
	}
	e.watched, e.watching = nil, nil
}

// startHelper starts the helper, which ends after quit is closed.
func (e *engine) startHelper() { go e.help() }

// help makes passes while nobody else does, until quit.
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
		if n := e.passes.Load(); n != seen { // Somebody makes them: mu is left alone.
			seen = n
			continue
		}
		seen = e.helpOut(seen)
	}
}

// helpOut makes passes until somebody else does, or wants to, and returns how many there were.
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

// stopped says whether the helper is to end.
func (e *engine) stopped() bool {
	select {
	case <-e.quit:
		return true
	default:
		return false
	}
}
