package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gobtl/mpi"
)

// A rank that the others have taken for dead, because it has stood still for too long, learns it
// when it goes on: it does not take the others for dead, and itself for the only one left.
func TestExcluded(t *testing.T) {
	const victim = 2
	for name, meet := range map[string][][2]int{
		"all connected":    {{0, 1}, {0, 2}, {1, 2}},
		"one hears of it":  {{0, 1}, {1, 2}},
		"the other leads":  {{0, 1}, {0, 2}},
		"two ranks, alone": nil,
	} {
		size := 3
		if meet == nil {
			size, meet = 2, [][2]int{{0, 1}}
		}
		held := min(victim, size-1)
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			var others, over sync.WaitGroup
			others.Add(size - 1)
			over.Add(1)
			go func() {
				others.Wait()
				close(release)
			}()
			runWith(t, soon(), "udp", size, func(ctx context.Context, w *mpi.World) error {
				if err := meetPairs(ctx, w, meet); err != nil {
					return err
				}
				if err := w.Job().Fence(ctx); err != nil {
					return err
				}
				if w.Rank() == held {
					defer over.Done()
					w.Hold(release)
					c, err := w.Shrink(ctx)
					if !errors.Is(err, mpi.ErrExcluded) {
						return fmt.Errorf("shrunk to %v with %w", c, err)
					}
					if err := w.Finalize(ctx); !errors.Is(err, mpi.ErrExcluded) {
						return fmt.Errorf("finalized with %w", err)
					}
					return nil
				}
				err := notice(ctx, w, held)
				others.Done()
				if err != nil {
					return err
				}
				rest, err := w.Shrink(ctx)
				if err == nil && rest.Size() != size-1 {
					err = fmt.Errorf("%d are left", rest.Size())
				}
				over.Wait() // It is those that are there that can tell.
				return errors.Join(err, w.Finalize(ctx))
			})
		})
	}
}

// meetPairs has pairs of ranks connect.
func meetPairs(ctx context.Context, w *mpi.World, pairs [][2]int) error {
	one := make([]byte, 1)
	for _, p := range pairs {
		if i := slices.Index(p[:], w.Rank()); i >= 0 {
			if _, err := mpi.Sendrecv(ctx, &w.Comm, one, p[1-i], 1, make([]byte, 1), p[1-i], 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// notice waits until a rank is known to be gone.
func notice(ctx context.Context, w *mpi.World, rank int) error {
	for !slices.Contains(w.Failed(), rank) {
		if ctx.Err() != nil {
			return fmt.Errorf("rank %d is not known to be gone: %w", rank, ctx.Err())
		}
		time.Sleep(10 * time.Millisecond) // Many ranks may wait here.
	}
	return nil
}

// What begins with a rank that is gone ends at once, also where there never was a connection.
func TestDeadWithoutConnection(t *testing.T) {
	const victim = 2
	runWith(t, soon(), "udp", 3, func(ctx context.Context, w *mpi.World) error {
		if err := meetPairs(ctx, w, [][2]int{{0, 1}, {1, 2}}); err != nil {
			return err
		}
		if err := w.Job().Fence(ctx); err != nil {
			return err
		}
		if w.Rank() == victim {
			w.Kill()
			return nil
		}
		if err := notice(ctx, w, victim); err != nil {
			return err
		}
		data := make([]byte, 1)
		_, received := mpi.Recv(ctx, &w.Comm, data, victim, 1)
		for _, err := range []error{received, mpi.SendSync(ctx, &w.Comm, data, victim, 1)} {
			if err := dead(err, victim); err != nil {
				return err
			}
		}
		return w.Finalize(ctx)
	})
}
