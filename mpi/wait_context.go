package mpi

import "context"

// A contextWatch wakes the sleeping call when a context ends. A contextWatch watches at most one
// context at a time. A contextWatch continues to watch the context after the sleep, because the
// same call often sleeps again. The engine's mu guards each contextWatch.
type contextWatch struct {
	wake    func()
	watched <-chan struct{} // Done channel of the watched context; nil: none
	stop    func() bool     // ends the watch
}

// The method "set" arranges that the end of ctx ends the sleep in progress, or the next sleep if no
// call sleeps. After the call of the method "set", the contextWatch no longer watches the previous
// context. If ctx can never end, the method "set" does nothing.
func (w *contextWatch) set(ctx context.Context) {
	done := ctx.Done()
	if done == nil || done == w.watched {
		return
	}
	w.clear()
	w.watched, w.stop = done, context.AfterFunc(ctx, w.wake)
}

// The method "clear" undoes the method "set", so that the end of the context no longer ends a
// sleep.
func (w *contextWatch) clear() {
	if w.watched != nil {
		w.stop()
	}
	w.watched, w.stop = nil, nil
}
