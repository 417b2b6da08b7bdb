package mpi_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gobtl/mpi"
)

// A rank that stands still amid many large messages does not keep the regions that those of others
// need.
func TestStoppedLeavesRegions(t *testing.T) {
	const stopped, messages, size = 2, 40, 200_000
	release := make(chan struct{})
	cfg := mpi.Config{}
	cfg.Transport.RegionsMax = 32
	runWith(t, cfg, "udp", 3, func(ctx context.Context, w *mpi.World) error {
		if err := mpi.Barrier(ctx, &w.Comm); err != nil {
			return err
		}
		requests, data := make([]*mpi.Request, messages), make([]byte, size)
		for i := range requests {
			requests[i] = new(mpi.Request)
		}
		if w.Rank() == stopped {
			for _, r := range requests {
				if err := mpi.Isend(r, &w.Comm, data, 0, 1); err != nil {
					return err
				}
			}
			met := make(chan error, 1)
			go func() {
				time.Sleep(50 * time.Millisecond)
				met <- w.Job().Fence(ctx)
			}()
			w.DriveBriefly() // so that all have been announced, and none of their regions is known
			w.Hold(release)
			if err := <-met; err != nil {
				return err
			}
			if err := mpi.WaitAll(ctx, nil, requests...); err != nil {
				return err
			}
			return w.Finalize(ctx)
		}
		if err := w.Job().Fence(ctx); err != nil {
			return err
		}
		if w.Rank() == 1 {
			if err := mpi.Send(ctx, &w.Comm, data, 0, 2); err != nil {
				return err
			}
			return w.Finalize(ctx)
		}
		for _, r := range requests {
			if err := mpi.Irecv(r, &w.Comm, make([]byte, size), stopped, 1); err != nil {
				return err
			}
		}
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := mpi.Recv(short, &w.Comm, data, 1, 2)
		close(release)
		if err != nil {
			return fmt.Errorf("from another rank: %w", err)
		}
		if err := mpi.WaitAll(ctx, nil, requests...); err != nil {
			return err
		}
		return w.Finalize(ctx)
	})
}
