package runner

import (
	"context"
	"runtime"
	"time"

	"gobtl/internal/waiting"
)

// While one call after another drives the module, the watcher (the Runner's own goroutine)
// repeatedly sleeps for the time "napping". While the watcher sleeps for the time "napping",
// packets do not wake it, and it does not compete with the calls for the token (the module's lock).
const napping = 100 * time.Microsecond

// After missesMost failed attempts to lock the token (the module's lock), the watcher (the Runner's
// own goroutine) waits until the token is released. The value of missesMost is large, so that the
// watcher is rarely woken while short calls follow one another.
const missesMost = 100

// The method "watch" is the main function of the Runner's own goroutine, called the watcher. The
// watcher drives the module while no call drives it, and finally closes the module.
func (r *Runner) watch() {
	if r.cfg.Setup != nil {
		runtime.LockOSThread() // the thread ends with the goroutine; Setup may have pinned it
		if err := r.cfg.Setup(); err != nil {
			r.lost.Store(&err)
			r.asked.Store(true)
		}
	}
	defer waiting.Enter()()
	defer r.napper.close()
	var seen uint64
	misses := 0
	rested := false // the latest iteration was a sleep and a poll
	for !r.asked.Load() {
		if !r.seek(&misses) {
			continue
		}
		if r.sleeping.Load() { // a call sleeps in the kernel
			r.release()
			r.waitRelief()
			continue
		}
		calls := r.drives - seen
		if seen = r.drives; calls > 1 {
			r.pass()
			r.release()
			r.nap()
			continue
		}
		sleepy := rested && r.atRest() || r.drive(context.Background(), nil, false)
		rested = false
		if sleepy {
			holding, slept := r.sleep(context.Background(), nil)
			if !holding {
				continue
			}
			rested = slept
		}
		if r.pass() > 0 && sleepy {
			r.policies[1].Found(r.m.Now())
		}
		wakes := r.woken > 0
		r.woken = 0
		r.release()
		if !sleepy {
			runtime.Gosched()
			if r.wanted.Load() > 0 {
				r.nap()
			}
		} else if wakes {
			runtime.Gosched()
		}
	}
	r.finish()
}

// The method "seek" tries to lock the token (the lock whose holder owns the module), and reports
// whether it has succeeded. If the token is locked, the method "seek" waits for a short time before
// it returns false. After missesMost failed attempts in succession, the method "seek" waits until
// the token is released, because a long callback or a sleep in the kernel can keep the token locked
// for a long time. The argument "misses" counts the consecutive failed attempts of the method
// "seek" to lock the token.
func (r *Runner) seek(misses *int) (holding bool) {
	if r.token.TryLock() {
		*misses = 0
		return true
	}
	if *misses++; *misses < missesMost || r.cfg.Wait == WaitBusy {
		r.nap()
		return false
	}
	*misses = 0
	r.watcherWaits.Store(true)
	defer r.watcherWaits.Store(false)
	if r.token.TryLock() { // released before watcherWaits was set
		return true
	}
	select {
	case <-r.relief:
	case <-time.After(r.cfg.Park):
	}
	return false
}

// atRest reports whether the watcher (the Runner's own goroutine) can sleep without polling again
// first. If a packet has arrived since the latest poll, the fabric ends the sleep.
func (r *Runner) atRest() bool {
	p := r.policies[1]
	return r.sleeper != nil && p.Calm() && r.due().Sub(r.m.Now()) > p.SleepMin() &&
		r.wanted.Load() == 0 && !r.asked.Load() && r.now().Sub(r.m.Now()) < napping
}

// The method "nap" lets the watcher (the Runner's own goroutine) sleep for a short time while calls
// drive the module.
func (r *Runner) nap() {
	if r.cfg.Wait == WaitBusy {
		waiting.Cede()
		runtime.Gosched()
		return
	}
	r.naps.Add(1)
	r.rest()
}

// The method "rest" lets the watcher (the Runner's own goroutine) sleep for a short time.
func (r *Runner) rest() {
	if r.cfg.Setup != nil {
		nap(napping)
	} else {
		r.napper.nap(napping)
	}
}

// waitRelief lets the watcher (the Runner's own goroutine) wait until no call of the Runner sleeps
// in the kernel.
func (r *Runner) waitRelief() {
	for r.sleeping.Load() && !r.asked.Load() {
		select {
		case <-r.relief:
		case <-time.After(r.cfg.Park):
		}
	}
}

// The method "relieve" wakes the watcher (the Runner's own goroutine) if it waits until no call
// sleeps in the kernel or until the token is released.
func (r *Runner) relieve() {
	select {
	case r.relief <- struct{}{}:
	default:
	}
}

// The method "finish" closes all endpoints, closes the module, and ends all calls.
func (r *Runner) finish() {
	for {
		r.token.Lock()
		if e := r.lost.Load(); e != nil && r.broken == nil {
			r.broken = *e
		}
		if r.broken == nil {
			r.pass()
		}
		if !r.sleeping.Load() && (r.broken != nil || r.over()) {
			r.shutdown(r.broken)
			r.release()
			return
		}
		if r.sleeping.Load() {
			r.m.Wake()
		}
		r.release()
		r.rest()
	}
}
