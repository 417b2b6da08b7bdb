package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"gobtl/mpi"
)

// The first message ever between two ranks that share memory ends a receive from any rank of a
// communicator that is smaller than the job. The first packet is the message, and also connects.
func TestFirstMessageOverMemory(t *testing.T) {
	const size = 8
	ctx, cancel := context.WithTimeout(t.Context(), patience/4)
	defer cancel()
	var cfg mpi.Config
	cfg.Fabric.Provider = "shm"
	cfg.Transport.SendBuffers, cfg.Transport.RecvDepth = 128, 128
	job, errs := &group{size: size}, make([]error, size)
	var all sync.WaitGroup
	for rank := range size {
		all.Go(func() {
			w, err := mpi.Open(ctx, seat{job, rank}, cfg)
			if err == nil {
				err = errors.Join(firstMessages(ctx, w), w.Finalize(ctx))
			}
			if errs[rank] = err; err != nil {
				cancel()
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// firstMessages makes a communicator of all ranks but the last one, along a tree, and then sends a
// message to each of its ranks from all others at the same time.
func firstMessages(ctx context.Context, w *mpi.World) error {
	members := w.Size() - 1
	var c *mpi.Comm
	if g, err := w.Group().Excl(members); err != nil {
		return err
	} else if w.Rank() < members {
		if c, err = w.CreateGroup(ctx, g, 1); err != nil {
			return err
		}
	}
	for to := range members {
		requests := make([]*mpi.Request, members-1)
		for i := range requests {
			requests[i] = new(mpi.Request)
			if w.Rank() != to {
				continue
			}
			if err := mpi.Irecv(requests[i], c, make([]int, 1), mpi.AnySource, 1); err != nil {
				return err
			}
		}
		err := w.Job().Fence(ctx)
		if err == nil && w.Rank() != to && c != nil {
			err = mpi.Send(ctx, c, []int{1}, to, 1)
		}
		if err == nil && w.Rank() == to {
			err = mpi.WaitAll(ctx, nil, requests...)
		}
		if err == nil {
			err = w.Job().Fence(ctx)
		}
		if err != nil {
			return fmt.Errorf("rank %d, messages to %d: %w", w.Rank(), to, err)
		}
	}
	return nil
}
