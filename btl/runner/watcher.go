package runner

import (
	"runtime"
	"sync/atomic"
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

// The type "watcher" is the state of the Runner's own goroutine, called the watcher, while calls
// drive the module. The methods "relieve" and "released" are safe for concurrent use, and only the
// watcher may call the other methods of the type "watcher".
type watcher struct {
	wait   Waiting       // Config.Wait
	park   time.Duration // Config.Park: the maximum duration of one wait for relief
	pinned bool          // Config.Setup may have pinned the thread of the watcher
	relief chan struct{} // tells the watcher that no call sleeps, or that the token is free
	waits  atomic.Bool   // the watcher waits until the token is released
	misses int           // number of consecutive failed attempts to lock the token
	napper napper
	naps   atomic.Uint64 // number of naps
}

// The method "seek" tries to lock the token (the lock whose holder owns the module), and reports
// whether it has succeeded. If the token is locked, the method "seek" waits for a short time before
// it returns false. After missesMost failed attempts in succession, the method "seek" waits until
// the token is released, because a long callback or a sleep in the kernel can keep the token locked
// for a long time.
func (w *watcher) seek(t *turn) (holding bool) {
	if t.token.TryLock() {
		w.misses = 0
		return true
	}
	if w.misses++; w.misses < missesMost || w.wait == WaitBusy {
		w.nap()
		return false
	}
	w.misses = 0
	w.waits.Store(true)
	defer w.waits.Store(false)
	if t.token.TryLock() { // released before the field "waits" was set
		return true
	}
	w.waitRelief()
	return false
}

// The method "nap" lets the watcher sleep for a short time while calls drive the module.
func (w *watcher) nap() {
	if w.wait == WaitBusy {
		waiting.Cede()
		runtime.Gosched()
		return
	}
	w.naps.Add(1)
	w.rest()
}

// The method "rest" lets the watcher sleep for a short time.
func (w *watcher) rest() {
	if w.pinned {
		nap(napping)
	} else {
		w.napper.nap(napping)
	}
}

// waitRelief lets the watcher wait until a goroutine calls the method "relieve", but at most
// for the time Config.Park.
func (w *watcher) waitRelief() {
	select {
	case <-w.relief:
	case <-time.After(w.park):
	}
}

// The method "relieve" wakes the watcher if the watcher waits until no call sleeps in the kernel or
// until the token is released.
func (w *watcher) relieve() {
	select {
	case w.relief <- struct{}{}:
	default:
	}
}

// A goroutine that has released the token calls the method "released", which wakes the watcher if
// the watcher waits until the token is released.
func (w *watcher) released() {
	if w.waits.Load() {
		w.relieve()
	}
}

// The method "end" frees the resources of the watcher.
func (w *watcher) end() { w.napper.close() }
