package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"gobtl/mpi"
)

// The fault: a rank that asks twice for the shared lock while another rank holds it is counted
// twice at the grant and once at the release, so that no rank can ever get the exclusive lock
// again.
func TestLiarLockAskedTwice(t *testing.T) {
	run(t, "udp", 3, func(ctx context.Context, w *mpi.World) error {
		win, err := mpi.NewWindow(ctx, &w.Comm, make([]int64, 4))
		if err != nil {
			return err
		}
		step := func(rank int, fn func() error) {
			if err == nil && w.Rank() == rank {
				err = fn()
			}
			if err == nil {
				err = mpi.Barrier(ctx, &w.Comm)
			}
		}
		step(2, func() error { return win.Lock(ctx, 0, true) })
		step(1, func() error { return win.AskForLock(ctx, 0, 2) })
		step(2, func() error { return win.Unlock(ctx, 0) })
		step(1, func() error { return win.GiveLock(ctx, 0) })
		step(2, func() error {
			short, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			if err := win.Lock(short, 0, true); err != nil {
				return fmt.Errorf("nobody holds the lock, and it is not had: %w", err)
			}
			return win.Unlock(ctx, 0)
		})
		return err
	})
}

// The requests for a lock that one rank has waiting at another have no bound.
func TestLiarLocksWaiting(t *testing.T) {
	run(t, "udp", 3, func(ctx context.Context, w *mpi.World) error {
		win, err := mpi.NewWindow(ctx, &w.Comm, make([]int64, 4))
		if err != nil {
			return err
		}
		if w.Rank() == 0 {
			err = win.Lock(ctx, 0, true)
		}
		err = errors.Join(err, mpi.Barrier(ctx, &w.Comm))
		if w.Rank() == 1 && err == nil {
			err = win.AskForLock(ctx, 0, 200)
		}
		err = errors.Join(err, mpi.Barrier(ctx, &w.Comm))
		if w.Rank() == 0 {
			if n := win.LocksWaiting(); n > 2 {
				err = fmt.Errorf("%d requests of one rank wait for the lock", n)
			}
		}
		return err
	})
}

// A rank cannot make another rank store gigabytes for rounds of communicators that do not exist.
func TestLiarVotesFillMemory(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		const votes = 16
		if err := mpi.Barrier(ctx, &w.Comm); err != nil {
			return err
		}
		heapNow := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heapNow()
		var err error
		if w.Rank() == 1 {
			err = w.Vote(ctx, 0, votes, min(w.FragmentBytesMax()-32, 1<<20)/4)
		}
		if err = errors.Join(err, mpi.Barrier(ctx, &w.Comm)); err != nil {
			return err
		}
		if grown := heapNow() - before; w.Rank() == 0 && grown > 8<<20 {
			return fmt.Errorf("%d votes, of 65536 that are kept, hold %d MiB", votes, grown>>20)
		}
		return mpi.Barrier(ctx, &w.Comm)
	})
}

// What begins in a communicator that was freed has ErrFreed, Agree and Shrink too.
func TestFreedAgree(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		d, err := w.Dup(ctx)
		if err != nil {
			return err
		}
		d.Free()
		if err := mpi.Barrier(ctx, &w.Comm); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if _, err := d.Agree(short, 1); !errors.Is(err, mpi.ErrFreed) {
			return fmt.Errorf("Agree: %w", err)
		}
		if d, err = w.Dup(ctx); err != nil {
			return err
		}
		if err := d.Revoke(); err != nil {
			return err
		}
		d.Free()
		if err := mpi.Barrier(ctx, &w.Comm); err != nil {
			return err
		}
		if _, err := d.Shrink(short); !errors.Is(err, mpi.ErrRevoked) {
			return fmt.Errorf("Shrink, freed when it was revoked: %w", err)
		}
		return nil
	})
}

// Lock returns when its context ends, also where the rank stands still and as many operations with
// it are under way as may be.
func TestLockOutlivesContext(t *testing.T) {
	release := make(chan struct{})
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		win, err := mpi.NewWindow(ctx, &w.Comm, make([]int64, 4))
		if err == nil {
			err = mpi.Barrier(ctx, &w.Comm)
		}
		if err != nil {
			return err
		}
		if w.Rank() == 0 {
			w.Hold(release)
			return mpi.Barrier(ctx, &w.Comm)
		}
		time.Sleep(200 * time.Millisecond)
		old := make([]int64, 256)
		for i := range old {
			short, cancel := context.WithTimeout(ctx, time.Second)
			e := win.GetAccumulate(short, []int64{1}, old[i:i+1], 0, 0, mpi.Sum[int64]())
			cancel()
			if e != nil {
				break // There is no room for more.
			}
		}
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- win.Lock(short, 0, true) }()
		select {
		case e := <-ended:
			if !errors.Is(e, context.DeadlineExceeded) {
				err = fmt.Errorf("Lock: %w", e)
			}
		case <-time.After(4 * time.Second):
			err = errors.New("Lock has not returned 4 s after the end of its context of 200 ms")
		}
		close(release)
		return errors.Join(err, mpi.Barrier(ctx, &w.Comm))
	})
}
