package runner

import (
	"context"
	"runtime"
	"time"

	"gobtl/internal/waiting"
)

// napping is the time for which the watcher (the Runner's own goroutine) sleeps while successive
// calls drive the module. While the watcher sleeps for the time napping, packets do not wake it,
// and it does not compete with the calls for the token.
const napping = 100 * time.Microsecond

// watch drives the module while no call does, and closes the module at the end. watch runs on the
// Runner's own goroutine, the watcher.
func (r *Runner) watch() {
	if r.cfg.Setup != nil {
		runtime.LockOSThread() // ends with the goroutine: its affinity may have been changed
		if err := r.cfg.Setup(); err != nil {
			r.lost.Store(&err)
			r.asked.Store(true)
		}
	}
	defer waiting.Enter()()
	defer r.napper.close()
	var seen uint64
	rested := false // the latest iteration was a sleep and a poll
	for !r.asked.Load() {
		if !r.token.TryLock() {
			r.nap()
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
			r.giveWay()
		} else if wakes {
			runtime.Gosched()
		}
	}
	r.finish()
}

// atRest reports whether the watcher may sleep without another poll, because the fabric wakes it
// for packets that have arrived after the latest poll.
func (r *Runner) atRest() bool {
	p := r.policies[1]
	return r.sleeper != nil && p.Calm() && r.due().Sub(r.m.Now()) > p.SleepMin() &&
		r.wanted.Load() == 0 && !r.asked.Load() && r.now().Sub(r.m.Now()) < napping
}

// giveWay gives the token (the lock whose holder owns the module) to a waiting call.
func (r *Runner) giveWay() {
	runtime.Gosched()
	if r.wanted.Load() > 0 {
		r.nap()
	}
}

// nap lets the watcher sleep for a short time while calls drive the module.
func (r *Runner) nap() {
	if r.cfg.Wait == WaitBusy {
		waiting.Cede()
		runtime.Gosched()
		return
	}
	r.rest()
}

// rest lets the watcher sleep for a short time.
func (r *Runner) rest() {
	if r.cfg.Setup != nil {
		nap(napping)
	} else {
		r.napper.nap(napping)
	}
}

// waitRelief waits until no goroutine that calls the Runner is blocked in a system call.
func (r *Runner) waitRelief() {
	for r.sleeping.Load() && !r.asked.Load() {
		select {
		case <-r.relief:
		case <-time.After(r.cfg.Park):
		}
	}
}

// relieve tells the watcher that no call sleeps in the kernel any more.
func (r *Runner) relieve() {
	select {
	case r.relief <- struct{}{}:
	default:
	}
}

// finish closes all endpoints, closes the module, and ends all calls.
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
