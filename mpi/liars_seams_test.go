package mpi

import "context"

// AskForLock sends so many requests for the shared lock of a rank, as no honest rank does, and does
// not wait for them; GiveLock sends one Unlock.
func (w *Window[T]) AskForLock(ctx context.Context, rank, times int) error {
	w.w.c.e.lock()
	defer w.w.c.e.unlock()
	for range times {
		_, err := w.w.begin(ctx, rank, windowHead{kind: windowLock}, nil, []byte{}, false)
		if err != nil {
			return err
		}
	}
	return w.w.ask(ctx, rank, windowHead{kind: windowFlush}, nil, nil)
}

// GiveLock sends an Unlock and waits for its answer.
func (w *Window[T]) GiveLock(ctx context.Context, rank int) error {
	w.w.c.e.lock()
	defer w.w.c.e.unlock()
	return w.w.ask(ctx, rank, windowHead{kind: windowUnlock}, nil, nil)
}

// LocksWaiting is how many requests for this rank's lock wait.
func (w *Window[T]) LocksWaiting() int {
	w.w.c.e.lock()
	defer w.w.c.e.unlock()
	return len(w.w.server.waiting)
}

// Vote sends so many votes of rounds of communicators that nobody has, each with so many dead.
func (w *World) Vote(ctx context.Context, to, times, dead int) error {
	e := w.e
	e.lock()
	defer e.unlock()
	ranks := make([]int, dead)
	for i := range times {
		n := notice{kind: noticeVote, context: 1<<62 + uint64(i)<<countShift, dead: ranks}
		letter := letter{to: to, data: n.bytes()}
		if err := e.until(ctx, func() bool {
			if letter.data != nil && e.postOne(letter) {
				letter.data = nil
			}
			return letter.data == nil
		}); err != nil {
			return err
		}
	}
	_, err := e.flushTo(ctx, []int{to})
	return err
}

// FragmentBytesMax is the module's.
func (w *World) FragmentBytesMax() int { return w.e.m.Limits().FragmentBytesMax }
