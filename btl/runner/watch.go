package runner

import (
	"context"
	"runtime"

	"gobtl/internal/waiting"
)

// The method "watch" is the main function of the Runner's own goroutine, called the watcher. The
// watcher drives the module while no call drives it, and finally closes the module.
func (r *Runner) watch() {
	if r.cfg.Setup != nil {
		runtime.LockOSThread() // the thread ends with the goroutine; Setup may have pinned it
		if err := r.cfg.setUp(); err != nil {
			r.lost.Store(&err)
			r.asked.Store(true)
		}
	}
	defer waiting.Enter()()
	defer r.watcher.end()
	var seen uint64
	rested := false // the latest iteration was a sleep and a poll
	for !r.asked.Load() {
		if !r.watcher.seek(&r.turn) {
			continue
		}
		if r.turn.sleeping.Load() { // a call sleeps in the kernel
			r.release()
			for r.turn.sleeping.Load() && !r.asked.Load() {
				r.watcher.waitRelief()
			}
			continue
		}
		calls := r.turn.drives - seen
		if seen = r.turn.drives; calls > 1 {
			r.pass()
			r.release()
			r.watcher.nap()
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
			r.policies.of(nil).Found(r.m.Now())
		}
		wakes := r.turn.woken > 0
		r.turn.woken = 0
		r.release()
		if !sleepy {
			runtime.Gosched()
			if r.turn.wanted.Load() > 0 {
				r.watcher.nap()
			}
		} else if wakes {
			runtime.Gosched()
		}
	}
	r.finish()
}

// The method "setUp" calls Setup.
func (c *Config) setUp() error {
	returned := false
	defer mustReturn(&returned)
	err := c.Setup()
	returned = true
	return err
}

// atRest reports whether the watcher (the Runner's own goroutine) can sleep without polling again
// first. If a packet has arrived since the latest poll, the fabric ends the sleep.
func (r *Runner) atRest() bool {
	p := r.policies.of(nil)
	return r.sleeper != nil && p.Calm() && r.due().Sub(r.m.Now()) > p.SleepMin() &&
		r.turn.wanted.Load() == 0 && !r.asked.Load() && r.now().Sub(r.m.Now()) < napping
}

// The method "finish" closes all endpoints, closes the module, and ends all calls.
func (r *Runner) finish() {
	for {
		r.turn.token.Lock()
		if e := r.lost.Load(); e != nil && r.broken == nil {
			r.broken = *e
		}
		if r.broken == nil {
			r.pass()
		}
		if !r.turn.sleeping.Load() && (r.broken != nil || r.over()) {
			r.shutdown(r.broken)
			r.release()
			return
		}
		if r.turn.sleeping.Load() {
			r.m.Wake()
		}
		r.release()
		r.watcher.rest()
	}
}
