package layers

import (
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
	"gobtl/internal/waiting"
)

const (
	// clockEvery is the number of empty polls between two readings of the clock while spinning. A
	// reading of the clock costs as much as a poll of memory.
	clockEvery = 16
	// lookEvery is the number of clock readings between two calls of lookAround.
	lookEvery = 64
	// sleepMost is the longest sleep, because the end of a round wakes no sleeping thread. With sleeps
	// of 20 ms, Go's monitor thread, which wakes up every 20 us after each sleep, would take 2 % of a
	// CPU.
	sleepMost = 200 * time.Millisecond
)

// waiter makes the hot loops of a layer wait by the policy of package waiting.
type waiter struct {
	policy *waiting.Policy
	mode   waiting.Mode
	slack  time.Duration
	// The function sleep sleeps until something may have arrived, for the given time at most.
	sleep func(time.Duration) error
	until mono.Time // no sleep may last longer
	empty uint      // polls since the latest that found something
	looks uint
	fresh bool // something was found that the policy does not know of
	// yields says that the latest look has yielded the processor, and that the following looks also
	// yield it.
	yields bool
}

// newWaiter returns the waiter of the calling thread.
func newWaiter(mode waiting.Mode, sleep func(time.Duration) error) waiter {
	return waiter{
		policy: waiting.New(mode, 0, new(waiting.OSThread), clock()), mode: mode,
		slack: waiting.TimerSlack(), sleep: sleep, until: mono.Never,
	}
}

// busy records that a poll has found something.
func (w *waiter) busy() { w.empty, w.fresh = 0, true }

// The method idle records an empty poll, and spins, yields or sleeps. The method idle reports
// whether it is time to call lookAround.
func (w *waiter) idle() bool {
	w.empty++
	if w.mode != waiting.Event && w.empty%clockEvery != 0 && !w.yields {
		return false
	}
	now := clock()
	if w.fresh {
		w.policy.Found(now)
		w.fresh = false
	}
	action := w.policy.Empty(now)
	w.yields = action == waiting.Yield
	switch action {
	case waiting.Poll:
	case waiting.Yield:
		waiting.CedeBy(w.policy, clock)
	case waiting.Sleep:
		w.sleepFrom(now)
		return true
	}
	w.looks++
	return w.looks%lookEvery == 0
}

// sleepFrom sleeps, unless the sleep would be too short.
func (w *waiter) sleepFrom(now mono.Time) {
	d := min(sleepMost, w.until.Sub(now))
	if d <= 0 || d < w.policy.SleepMin() {
		return
	}
	if w.sleep(d) != nil {
		d = min(d, idleNap)
		time.Sleep(d)
	}
	w.policy.Slept(d, clock().Sub(now), w.slack)
}

// sleepOn sleeps on the descriptors of a domain.
func sleepOn(dom fabric.Domain) func(time.Duration) error {
	w, ok := dom.(fabric.Waiter)
	if !ok {
		return func(time.Duration) error { return fabric.ErrNotSupported }
	}
	return w.Wait
}

// sleep sleeps until something arrives at the transport, or until the transport's next deadline.
func (p *btlPort) sleep(d time.Duration) error {
	if next := p.m.Deadline(); next != mono.Never {
		d = min(d, next.Sub(clock()))
	}
	if d <= 0 {
		return nil
	}
	return p.m.Wait(d)
}

// pause waits for the time between two messages by the policy of the round, and the function pass
// polls the layer once.
func (w *waiter) pause(r *Round, pass func() (bool, error)) error {
	w.until = clock().Add(time.Duration(r.GapNs))
	defer func() { w.until = mono.Never }()
	for clock() < w.until && !r.over() {
		found, err := pass()
		if err != nil {
			return err
		}
		if found {
			w.busy()
		} else {
			w.idle()
		}
	}
	return nil
}
