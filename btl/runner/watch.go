package runner

import (
	"context"
	"runtime"
	"time"

	"gobtl/internal/waiting"
)

// napping is for how long the watcher leaves the module alone while calls drive it, one behind the
// other: so that it does not wake up for each of their packets, and does not contend for the token.
// What comes for a handler between two calls may wait that long.
const napping = 100 * time.Microsecond

// watch drives the module while nobody calls, and ends it.
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
	rested := false // the latest turn was a sleep and the pass behind it
	for !r.asked.Load() {
		if !r.token.TryLock() {
			r.nap()
			continue
		}
		if r.sleeping.Load() { // a call does
			r.release()
			r.waitRelief()
			continue
		}
		// A single call may be the last one for long: then it is better to sleep at once.
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

// atRest says whether the watcher, which has made a pass, may sleep without another one: the fabric
// tells of what has come meanwhile. Unless a call has kept the module from it for a while: then the
// module does not know how late it is, and what has become due.
func (r *Runner) atRest() bool {
	p := r.policies[1]
	return r.sleeper != nil && p.Calm() && r.due().Sub(r.m.Now()) > p.SleepMin() &&
		r.wanted.Load() == 0 && !r.asked.Load() && r.now().Sub(r.m.Now()) < napping
}

// giveWay lets who wants the token have it. A handler that only sends is done with it by then: who
// naps for that has the peer's next packet wait.
func (r *Runner) giveWay() {
	runtime.Gosched()
	if r.wanted.Load() > 0 {
		r.nap()
	}
}

// nap leaves the module to the calls for a while.
func (r *Runner) nap() {
	if r.cfg.Wait == WaitBusy {
		waiting.Cede()
		runtime.Gosched()
		return
	}
	r.rest()
}

// rest sleeps for a short while. Who has set up a thread of its own keeps it, and Go's processor.
func (r *Runner) rest() {
	if r.cfg.Setup != nil {
		nap(napping)
	} else {
		r.napper.nap(napping)
	}
}

// waitRelief waits until the call that sleeps in the kernel has its end.
func (r *Runner) waitRelief() {
	for r.sleeping.Load() && !r.asked.Load() {
		select {
		case <-r.relief:
		case <-time.After(r.cfg.Park):
		}
	}
}

// relieve tells the watcher that nobody sleeps any more for the module.
func (r *Runner) relieve() {
	select {
	case r.relief <- struct{}{}:
	default:
	}
}

// finish drains the module, closes it, and ends what waits.
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
