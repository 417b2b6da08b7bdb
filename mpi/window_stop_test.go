package mpi_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/mpi"
)

// Ranks that stall between the announcement of an operation and its data do not delay other ranks
// at that window. A rank that does not receive its messages does not delay the operations of other
// ranks either.
func TestWindowStopped(t *testing.T) {
	const owner, stopped, count = 6, 5, 4
	cfg := mpi.Config{}
	cfg.Layer.EagerBytes = 64
	var held sync.WaitGroup
	held.Add(stopped)
	release := make(chan struct{})
	runWith(t, cfg, "udp", owner+1, func(ctx context.Context, w *mpi.World) error {
		win, err := mpi.NewWindow(ctx, &w.Comm, make([]int64, 100))
		if err != nil {
			return err
		}
		sum, many := mpi.Sum[int64](), make([]int64, 100)
		for i := range many {
			many[i] = 1
		}
		if err := win.Fence(ctx); err != nil {
			return err
		}
		switch w.Rank() {
		default:
			if err := win.AnnounceAndHold(ctx, many, owner, count, sum, &held, release); err != nil {
				return err
			}
		case owner:
		case 0:
			held.Wait()
			var begun atomic.Int32
			all := make(chan error, 1)
			go func() {
				var err error
				for range 2000 {
					if err = win.Accumulate(ctx, many, stopped, 0, sum); err != nil {
						break
					}
					begun.Add(1)
				}
				all <- err
			}()
			for last := int32(-1); begun.Load() != last; time.Sleep(20 * time.Millisecond) {
				last = begun.Load() // until it waits
			}
			soon, cancel := context.WithTimeout(ctx, limit/4)
			defer cancel()
			for range 40 {
				if _, err := win.FetchAndOp(soon, 1, owner, 0, sum); err != nil {
					close(release)
					return fmt.Errorf("while another rank stands still, %d begun to it: %w", begun.Load(), err)
				}
			}
			close(release)
			if err := <-all; err != nil {
				return err
			}
		}
		if err := win.Fence(ctx); err != nil {
			return err
		}
		want := map[int]int64{stopped: 2000, owner: 40 + stopped*count}[w.Rank()]
		if got := win.Mem()[0]; got != want {
			return fmt.Errorf("%d, not %d", got, want)
		}
		return w.Finalize(ctx)
	})
}
