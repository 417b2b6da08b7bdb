package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/mpi"
)

// asks are the calls that wait for an answer of a rank.
func asks(win *mpi.Window[int64], rank int) map[string]func(context.Context) error {
	sum := mpi.Sum[int64]()
	return map[string]func(context.Context) error{
		"Lock": func(ctx context.Context) error { return win.Lock(ctx, rank, true) },
		"FetchAndOp": func(ctx context.Context) error {
			return second(win.FetchAndOp(ctx, 1, rank, 0, sum))
		},
		"CompareAndSwap": func(ctx context.Context) error {
			return second(win.CompareAndSwap(ctx, 0, 1, rank, 0))
		},
		"Flush": func(ctx context.Context) error {
			return errors.Join(win.Accumulate(ctx, []int64{1}, rank, 0, sum), win.Flush(ctx, rank))
		},
		"Fence":  win.Fence,
		"Unlock": func(ctx context.Context) error { return win.Unlock(ctx, rank) },
	}
}

// endsRevoked calls a function that must end at once, because a rank has ended the window.
func endsRevoked(ctx context.Context, what string, call func(context.Context) error) error {
	short, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := call(short); !errors.Is(err, mpi.ErrRevoked) {
		return fmt.Errorf("%s at the memory of a rank that has ended the window: %w", what, err)
	}
	return nil
}

// A rank that frees its window because a rank is dead ends the window at all ranks. No rank waits
// for answers of the rank that has freed its window, neither in a call that has begun before, nor
// in a later call.
func TestWindowEndsAfterDeath(t *testing.T) {
	const owner, victim, size = 0, 3, 4
	runWith(t, soon(), "udp", size, func(ctx context.Context, w *mpi.World) error {
		win, err := mpi.NewWindow(ctx, &w.Comm, make([]int64, 10))
		if w.Rank() == owner && err == nil {
			err = win.Lock(ctx, owner, true)
		}
		if err = errors.Join(err, w.Job().Fence(ctx)); err != nil {
			return err
		}
		switch w.Rank() {
		case victim:
			w.Kill()
			return w.Job().Fence(ctx)
		case owner:
			if err := notice(ctx, w, victim); err != nil {
				return err
			}
			time.Sleep(100 * time.Millisecond)
			if err := dead(win.Free(ctx), victim); err != nil {
				return err
			}
			if err := w.Job().Fence(ctx); err != nil {
				return err
			}
		default: // waits in Lock until the owner frees the window.
			err = win.Put(ctx, make([]int64, 10), owner, 0)
			err = errors.Join(err, endsRevoked(ctx, "a Lock in progress", asks(win, owner)["Lock"]))
			if err = errors.Join(err, w.Job().Fence(ctx)); err != nil {
				return err
			}
			for what, call := range asks(win, owner) {
				if err := endsRevoked(ctx, what, call); err != nil {
					return err
				}
			}
			err = errors.Join(notice(ctx, w, victim), win.Free(ctx))
			if !errors.Is(err, mpi.ErrRevoked) {
				return fmt.Errorf("Free of a window that has ended: %w", err)
			}
			if err := dead(err, victim); err != nil {
				return err
			}
		}
		rest, err := w.Shrink(ctx)
		if err != nil {
			return err
		}
		return errors.Join(sumsOf(ctx, rest), w.Finalize(ctx))
	})
}

// If the context of NewWindow ends at one rank, the window ends at all ranks.
func TestWindowEndsUnopened(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		mem := make([]int64, 10)
		if w.Rank() == 0 {
			_, err := mpi.OpenWindow(ctx, &w.Comm, mem, func() (context.Context, error) {
				ended, cancel := context.WithCancel(ctx)
				cancel()
				return ended, nil
			})
			if !errors.Is(err, context.Canceled) {
				return fmt.Errorf("a window whose context has ended: %w", err)
			}
			return errors.Join(w.Job().Fence(ctx), mpi.Barrier(ctx, &w.Comm))
		}
		win, err := mpi.OpenWindow(ctx, &w.Comm, mem, func() (context.Context, error) {
			return ctx, w.Job().Fence(ctx)
		})
		if err == nil {
			err = endsRevoked(ctx, "FetchAndOp", asks(win, 0)["FetchAndOp"])
		} else if errors.Is(err, mpi.ErrRevoked) {
			err = nil
		}
		return errors.Join(err, mpi.Barrier(ctx, &w.Comm))
	})
}
