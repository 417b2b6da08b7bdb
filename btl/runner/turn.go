package runner

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"gobtl/btl"
	"gobtl/internal/list"
)

// The type "turn" is the state of the token (the lock whose holder owns the module), and of the
// goroutines that wait for the token. A goroutine with a call waits in the method "block" until the
// call or its context has ended, or until the goroutine must drive the module.
type turn struct {
	m        *btl.Module // its method Wake wakes the goroutine that sleeps with the token
	token    sync.Mutex
	blocked  atomic.Int32 // number of calls in the state callBlocked
	poked    atomic.Bool  // a call was woken to drive the module, and has not tried to get the token
	sleeping atomic.Bool  // a goroutine sleeps in the kernel
	holding  atomic.Bool  // a goroutine sleeps in the kernel with the token
	wanted   atomic.Int32 // number of calls that try to get the token
	drives   uint64       // number of calls that have driven the module; guarded by the token
	woken    int          // calls woken since the last yield of the driver; guarded by the token
}

// The method "want" tries for a short time to lock the token, and reports whether it has succeeded.
func (t *turn) want() bool {
	if t.token.TryLock() {
		return true
	}
	if t.blocked.Load() > 0 || t.holding.Load() {
		return false
	}
	const tries, rounds = 100, 2 // a poll of the watcher takes about a microsecond
	t.wanted.Add(1)
	defer t.wanted.Add(-1)
	for range rounds {
		for range tries {
			if t.token.TryLock() {
				return true
			}
		}
		runtime.Gosched()
	}
	return false
}

// The method "block" waits until a call has ended, or until the call must drive the module. The
// result "holding" of the method "block" reports whether the caller owns the module after the wait.
// If a call has polled without receiving a packet, and a goroutine of another call sleeps in the
// kernel until a packet arrives, the method "block" leaves the next poll to that goroutine.
func (t *turn) block(ctx context.Context, c *call, searched, left bool) (holding bool) {
	t.blocked.Add(1)
	if !c.turn(callRunning, callBlocked) {
		t.blocked.Add(-1) // the call has ended
		return false
	}
	if !left && (!searched || !t.sleeping.Load()) && t.token.TryLock() {
		if c.turn(callBlocked, callRunning) {
			t.blocked.Add(-1)
			return true
		}
		<-c.wake
		t.woke(c)
		return true
	}
	t.wakeHolder()
	if done := ctx.Done(); done == nil {
		<-c.wake // cheaper than a select
	} else {
		select {
		case <-c.wake:
		case <-done:
			if c.turn(callBlocked, callRunning) {
				t.blocked.Add(-1)
				return false
			}
			<-c.wake
		}
	}
	return t.woke(c) && t.token.TryLock()
}

// The goroutine of a woken call calls the method "woke", which reports whether this goroutine must
// drive the module. If the woken call has already ended, its goroutine only locks and releases the
// token (the module's lock), so that the method Runner.release wakes the next call.
func (t *turn) woke(c *call) bool {
	if !c.poked {
		return false
	}
	c.poked = false
	c.turn(callPoked, callRunning)
	t.poked.Store(false)
	return true
}

// The method "wake" wakes the goroutine of a blocked call that has ended. The caller must own the
// module.
func (t *turn) wake(c *call) {
	t.blocked.Add(-1)
	t.woken++
	c.wake <- struct{}{}
}

// The method "poke" wakes a goroutine that waits in the method "block", so that this goroutine
// drives the module. The argument "open" lists the calls that have not ended, and the goroutine of
// the first blocked call is woken. The method "poke" returns false if no call is blocked. The
// caller of the method "poke" must own the module.
func (t *turn) poke(open *list.List[*call]) bool {
	for c := open.First(); c != nil; c = c.open.Next() {
		if c.turn(callBlocked, callPoked) {
			t.blocked.Add(-1)
			t.poked.Store(true)
			c.poked = true
			c.wake <- struct{}{}
			return true
		}
	}
	return false
}

// The method "vacant" reports whether a blocked call must be woken to drive the module, because no
// blocked call has been woken for this purpose, and no goroutine sleeps in the kernel.
func (t *turn) vacant() bool {
	return t.blocked.Load() > 0 && !t.poked.Load() && !t.sleeping.Load()
}

// If a goroutine sleeps while it owns the module (Runner.sleepHolding), the method "wakeHolder"
// wakes this goroutine.
func (t *turn) wakeHolder() {
	if t.holding.CompareAndSwap(true, false) {
		t.m.Wake()
	}
}
