package mpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// A rank that has ended a window answers no more requests for its memory. If a rank ends a window
// that other ranks might still use, because a rank is dead or the exchange of handles in NewWindow
// has failed, the rank revokes the window's communicator. The revocation ends the window at all
// other ranks, and the requests of those ranks that wait for an answer fail.

// Free waits until all ranks have called Free and the window operations of all ranks are complete,
// and then ends the window. The errors of Free are those of Fence. If Free returns an error, the
// window ends nevertheless, unless ctx has ended. If ctx ends before the operations of this rank
// are complete, the program can call Free again. If ctx ends while Free waits for the other ranks,
// Free at the other ranks can succeed, and a second call of Free at this rank would then wait for
// ever. If a rank of the window is dead, Free ends the window at all ranks, and the operations in
// the window that wait or begin later return an error that wraps ErrRevoked.
func (w *Window[T]) Free(ctx context.Context) error {
	if ctx == nil {
		return ErrContext
	}
	err := w.w.flushAll(ctx)
	if ctx.Err() != nil {
		return cmp.Or(err, context.Cause(ctx))
	}
	met, err := w.w.meet(ctx, err)
	if !met && ctx.Err() != nil {
		return err
	}
	w.w.c.e.lock()
	defer w.w.c.e.unlock()
	w.w.close(!met)
	return err
}

// The method "close" makes this rank's memory in the window inaccessible for other ranks. If the
// argument "alone" is true, other ranks might still use the window, and the method "close" revokes
// the communicator of the window. The caller must hold mu.
func (w *window) close(alone bool) {
	if w.freed {
		return
	}
	w.freed = true
	if w.region != nil {
		w.region.Close()
		w.c.e.exposed--
	}
	w.stopServing()
	if alone && w.c.e.broken == nil {
		w.c.e.revoke(w.c.context)
		w.c.e.post()
	}
	w.c.free()
}

// The method "meet" waits in a Barrier for the other ranks of the window, after the operations of
// this rank have ended with the error "flushed". The result "met" of the method "meet" is true if
// all ranks have come to the Barrier. The result "err" of the method "meet" joins "flushed" and the
// error of the Barrier.
func (w *window) meet(ctx context.Context, flushed error) (met bool, err error) {
	err = Barrier(ctx, w.c)
	switch {
	case !errors.Is(err, ErrRevoked):
		return err == nil, errors.Join(flushed, err)
	case errors.Is(flushed, ErrRevoked):
		return false, flushed
	}
	w.c.e.lock()
	defer w.c.e.unlock()
	return false, errors.Join(flushed, w.over())
}

// The method "usable" returns the reason why no operation can begin in a window, or nil if
// operations can begin. The caller must hold mu.
func (w *window) usable() error {
	if err := w.present(); err != nil {
		return err
	}
	if w.c.revoked != nil {
		return w.over()
	}
	return nil
}

// The method "present" returns an error if this rank has freed the window, or if the transport has
// failed. The caller must hold mu.
func (w *window) present() error {
	switch {
	case w.c.e.broken != nil:
		return w.c.e.broken
	case w.freed:
		return fmt.Errorf("%w: the window was freed", ErrFinalized)
	}
	return nil
}

// The method "checkRank" returns an error if this rank has freed the window, or if the window does
// not have the rank. Unlike the method "check", the method "checkRank" permits a revoked window.
// The caller must hold mu.
func (w *window) checkRank(rank int) error {
	if err := w.present(); err != nil {
		return err
	}
	if rank < 0 || rank >= len(w.targets) {
		return fmt.Errorf("%w: %d of %d", ErrRank, rank, len(w.targets))
	}
	return nil
}

// The method "over" returns the error of operations in a window that was revoked. If this rank
// knows that a rank of the window is dead, the error also wraps a RankError. The caller must hold
// mu.
func (w *window) over() error {
	e := w.c.e
	ended := func(rank int, why error) error {
		return fmt.Errorf("%w: the window has ended: %w", ErrRevoked, e.gone(rank, why))
	}
	for _, rank := range w.c.ranks {
		if why := e.failures.dead[rank]; why != nil {
			return ended(rank, why)
		}
	}
	for _, q := range e.failures.asked {
		if _, member := w.c.rankIn(q.rank); member {
			return ended(q.rank, q.why)
		}
	}
	return fmt.Errorf("%w: another rank has ended the window", ErrRevoked)
}
