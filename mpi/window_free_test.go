package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gobtl/mpi"
)

// A Free whose context has ended ends nothing, so that the window is usable, and Free can be called
// again.
func TestFreeAfterContext(t *testing.T) {
	for _, size := range []int{1, 2} {
		run(t, "mem/local", size, func(ctx context.Context, w *mpi.World) error {
			win, err := mpi.NewWindow(ctx, &w.Comm, []int64{5})
			if err != nil {
				return err
			}
			ended, end := context.WithCancel(ctx)
			end()
			if err := win.Free(ended); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("a Free whose context has ended: %w", err)
			}
			x := []int64{0}
			err = errors.Join(win.Get(ctx, x, w.Rank(), 0), win.Fence(ctx))
			if err != nil || x[0] != 5 {
				return fmt.Errorf("the window after this Free: %d, %w", x[0], err)
			}
			return win.Free(ctx)
		})
	}
}
