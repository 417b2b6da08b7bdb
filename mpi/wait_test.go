package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/mpi"
)

// A helper that sleeps on the network makes room for a call that begins to wait: else each packet
// would wake its thread beside the one that polls.
func TestHelperMakesRoom(t *testing.T) {
	run(t, "udp", 1, func(ctx context.Context, w *mpi.World) error {
		for ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond) // nobody calls: the helper sleeps then
			if before, after := w.DriveBriefly(); before && after {
				return errors.New("the helper sleeps on")
			} else if before {
				return nil
			}
		}
		return errors.New("the helper never sleeps")
	})
}

// Each context that ends ends the sleep of the call that has it, whichever calls slept before.
func TestContextsEndSleeps(t *testing.T) {
	const calls = 50
	began := time.Now()
	run(t, "udp", 1, func(ctx context.Context, w *mpi.World) error {
		for i := range calls {
			brief, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
			_, err := mpi.Recv(brief, &w.Comm, make([]byte, 1), 0, 0)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("call %d: %w", i, err)
			}
		}
		return nil
	})
	if took := time.Since(began); took > calls*mpi.SleepMost/2 {
		t.Errorf("%d calls of 2 ms took %v", calls, took)
	}
}
