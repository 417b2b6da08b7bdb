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

// firstMessages makes a communicator of all ranks but the last one, along a tree, and sends a
// message from each of its ranks to each other one.
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
	for pair := range members * members {
		to, from := pair%members, pair/members
		var r mpi.Request
		if w.Rank() == to && to != from {
			if err := mpi.Irecv(&r, c, make([]int, 1), mpi.AnySource, 1); err != nil {
				return err
			}
		}
		err := w.Job().Fence(ctx)
		if err == nil && w.Rank() == from && to != from {
			err = mpi.Send(ctx, c, []int{1}, to, 1)
		}
		if err == nil && r.Active() {
			_, err = r.Wait(ctx)
		}
		if err == nil {
			err = w.Job().Fence(ctx)
		}
		if err != nil {
			return fmt.Errorf("rank %d, from %d to %d: %w", w.Rank(), from, to, err)
		}
	}
	return nil
}
