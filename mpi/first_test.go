package mpi_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"gobtl/mpi"
)

// firstSize is the number of ranks of a job. All ranks but the last one have a communicator, whose
// ranks have exchanged messages along a tree only.
const firstSize = 8

// The function "tree" makes the communicator. It is nil at the last rank.
func tree(ctx context.Context, w *mpi.World) (*mpi.Comm, error) {
	g, err := w.Group().Excl(firstSize - 1)
	if err != nil || w.Rank() == firstSize-1 {
		return nil, err
	}
	return w.CreateGroup(ctx, g, 1)
}

// The first message ever from a rank ends a receive from any rank of a communicator that is smaller
// than the job. The message arrives together with the connection, while the receive waits.
func TestFirstMessageForAnySource(t *testing.T) {
	for _, provider := range []string{"udp", "mem/local"} {
		t.Run(provider, func(t *testing.T) {
			var first atomic.Int32
			run(t, provider, firstSize, func(ctx context.Context, w *mpi.World) error {
				ctx, cancel := context.WithTimeout(ctx, limit/4)
				defer cancel()
				c, err := tree(ctx, w)
				if err != nil {
					return err
				}
				for pair := range (firstSize - 1) * (firstSize - 1) {
					to, from := pair%(firstSize-1), pair/(firstSize-1)
					if to == from {
						continue
					}
					if err := firstMessage(ctx, w, c, to, from, &first); err != nil {
						return fmt.Errorf("from %d to %d: %w", from, to, err)
					}
				}
				return nil
			})
			if first.Load() == 0 {
				t.Error("all ranks were connected before")
			}
		})
	}
}

// firstMessage sends a message from one rank to another one, which waits for it, and counts the
// ranks that were not connected before.
func firstMessage(ctx context.Context, w *mpi.World, c *mpi.Comm, to, from int, first *atomic.Int32,
) error {
	var r mpi.Request
	var got [1]int64
	if w.Rank() == to {
		if !w.Met(from) {
			first.Add(1)
		}
		if err := mpi.Irecv(&r, c, got[:], mpi.AnySource, 1); err != nil {
			return err
		}
	}
	if err := w.Job().Fence(ctx); err != nil {
		return err
	}
	if w.Rank() == from {
		if err := mpi.Send(ctx, c, []int64{42}, to, 1); err != nil {
			return err
		}
	}
	if w.Rank() == to {
		if s, err := r.Wait(ctx); err != nil || s.Source != from || got[0] != 42 {
			return fmt.Errorf("%+v, value %d: %w", s, got[0], err)
		}
	}
	return w.Job().Fence(ctx)
}

// The same, in simulated time: all ranks send a message to rank 0.
func TestFirstMessageSimulated(t *testing.T) {
	first := 0
	for seed := range uint64(40) {
		s := newStage(t, seed, firstSize)
		s.play(t, func(ctx context.Context, w *mpi.World) error {
			c, err := tree(ctx, w)
			if err != nil || c == nil {
				return err
			}
			if c.Rank() > 0 {
				return mpi.Send(ctx, c, []int64{int64(c.Rank())}, 0, 1)
			}
			for from := 1; from < c.Size(); from++ {
				if !w.Met(from) {
					first++
				}
			}
			var got [firstSize]int64
			var requests [firstSize - 2]mpi.Request
			for i := range requests {
				if err := mpi.Irecv(&requests[i], c, got[i:i+1], mpi.AnySource, 1); err != nil {
					return err
				}
			}
			for i := range requests {
				s, err := requests[i].Wait(ctx)
				if err != nil || int64(s.Source) != got[i] {
					return fmt.Errorf("%+v, value %d: %w", s, got[i], err)
				}
			}
			return nil
		}, nil)
		s.end(t)
	}
	if first == 0 {
		t.Error("all ranks were connected before")
	}
}
