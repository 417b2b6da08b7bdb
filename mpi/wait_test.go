package mpi_test

import (
	"context"
	"errors"
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
