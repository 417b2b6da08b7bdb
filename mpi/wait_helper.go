package mpi

import (
	"sync/atomic"
	"time"
)

// If no call has polled the transport for the time helpEvery, the helper goroutine polls the
// transport.
const helpEvery = 5 * time.Millisecond

// The type "asyncProgress" is the helper goroutine, which polls the transport while the program
// computes. In MPI such polling is called asynchronous progress. The helper goroutine reads the
// count of polls to find out whether calls of the program poll the transport. In the zero value of
// asyncProgress, the helper goroutine has not started.
type asyncProgress struct {
	passes      atomic.Uint64 // polls of the transport
	quit, ended chan struct{} // nil: not started
}

// The method "polled" increments the count of polls of the transport. The caller must hold the
// engine's mu.
func (a *asyncProgress) polled() { a.passes.Store(a.passes.Load() + 1) }

// The method "polls" returns the count of polls of the transport.
func (a *asyncProgress) polls() uint64 { return a.passes.Load() }

// The method "start" starts the helper goroutine, which ends when another goroutine calls the
// method "stop". Whenever the count of polls has not changed for the time helpEvery, the helper
// goroutine calls the function "help" with the count of polls. The function "help" polls the
// transport, and returns the new count of polls.
func (a *asyncProgress) start(help func(seen uint64) uint64) {
	a.quit, a.ended = make(chan struct{}), make(chan struct{})
	go a.run(help)
}

func (a *asyncProgress) run(help func(seen uint64) uint64) {
	defer close(a.ended)
	tick := time.NewTicker(helpEvery)
	defer tick.Stop()
	for seen := uint64(0); ; {
		select {
		case <-a.quit:
			return
		case <-tick.C:
		}
		if n := a.polls(); n != seen { // Another call polls, so mu is not locked.
			seen = n
			continue
		}
		seen = help(seen)
	}
}

// The method "stop" ends the helper goroutine, and returns when the helper goroutine has ended. The
// method "stop" calls the function "wake", which must wake the helper goroutine if it sleeps on the
// fabric. If the helper goroutine has not started, the method "stop" does nothing. The caller must
// not hold the engine's mu.
func (a *asyncProgress) stop(wake func()) {
	if a.quit == nil {
		return
	}
	close(a.quit)
	wake()
	<-a.ended
}

// The method "stopped" reports whether the helper goroutine, which must have started, was told to
// end.
func (a *asyncProgress) stopped() bool {
	select {
	case <-a.quit:
		return true
	default:
		return false
	}
}
