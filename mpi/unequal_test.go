package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"gobtl/mpi"
)

// unequal are collective operations that a rank calls with n values, where others call them with
// another number, and how many ranks must have an error then: all, or one at least.
var unequal = map[string]struct {
	all bool
	do  func(ctx context.Context, c *mpi.Comm, n int) error
}{
	"bcast": {false, func(ctx context.Context, c *mpi.Comm, n int) error {
		return mpi.Bcast(ctx, c, make([]int64, n), 1)
	}},
	"reduce": {false, func(ctx context.Context, c *mpi.Comm, n int) error {
		return mpi.Reduce(ctx, c, make([]int64, n), make([]int64, n), mpi.Sum[int64](), 1)
	}},
	"allreduce": {true, func(ctx context.Context, c *mpi.Comm, n int) error {
		return mpi.Allreduce(ctx, c, make([]int64, n), make([]int64, n), mpi.Sum[int64]())
	}},
	"gather": {false, func(ctx context.Context, c *mpi.Comm, n int) error {
		return mpi.Gather(ctx, c, make([]int64, n), make([]int64, n*c.Size()), 1)
	}},
	"scatter": {false, func(ctx context.Context, c *mpi.Comm, n int) error {
		return mpi.Scatter(ctx, c, make([]int64, n*c.Size()), make([]int64, n), 1)
	}},
	"allgather": {true, func(ctx context.Context, c *mpi.Comm, n int) error {
		return mpi.Allgather(ctx, c, make([]int64, n), make([]int64, n*c.Size()))
	}},
	"alltoall": {true, func(ctx context.Context, c *mpi.Comm, n int) error {
		return mpi.Alltoall(ctx, c, make([]int64, n*c.Size()), make([]int64, n*c.Size()))
	}},
	"reduceScatter": {true, func(ctx context.Context, c *mpi.Comm, n int) error {
		return mpi.ReduceScatter(ctx, c, make([]int64, n*c.Size()), make([]int64, n), nil,
			mpi.Sum[int64]())
	}},
	"scan": {false, func(ctx context.Context, c *mpi.Comm, n int) error {
		return mpi.Scan(ctx, c, make([]int64, n), make([]int64, n), mpi.Sum[int64]())
	}},
	"exscan": {false, func(ctx context.Context, c *mpi.Comm, n int) error {
		return mpi.Exscan(ctx, c, make([]int64, n), make([]int64, n), mpi.Sum[int64]())
	}},
}

// Ranks that call a collective operation with different sizes have ErrCount, those that depend on
// them as well; nobody waits for ever, nothing is left, and the next operation is as it must be.
func TestUnequalCounts(t *testing.T) {
	for _, size := range []int{2, 5} {
		for _, counts := range [][2]int{{10, 20}, {20, 10}, {0, 5}, {20_000, 30_000}} {
			for _, odd := range []int{0, size - 1} {
				t.Run(fmt.Sprint(size, counts, odd), func(t *testing.T) {
					failed := make(map[string][]error)
					for name := range unequal {
						failed[name] = make([]error, size)
					}
					run(t, "mem/local", size, func(ctx context.Context, w *mpi.World) error {
						n := counts[0]
						if w.Rank() == odd {
							n = counts[1]
						}
						for _, name := range slices.Sorted(maps.Keys(unequal)) {
							err := unequal[name].do(ctx, &w.Comm, n)
							if failed[name][w.Rank()] = err; err != nil && !errors.Is(err, mpi.ErrCount) {
								return fmt.Errorf("%s: %w", name, err)
							}
							if err := goesOn(ctx, w); err != nil {
								return fmt.Errorf("after %s: %w", name, err)
							}
						}
						return nil
					})
					for name, o := range unequal {
						count := 0
						for _, err := range failed[name] {
							if err != nil {
								count++
							}
						}
						// Who has asked for nothing, and is told that there is nothing, has no error.
						if count == 0 || o.all && count < size && counts[0] > 0 {
							t.Errorf("%s: %d of %d ranks have an error: %v", name, count, size, failed[name])
						}
					}
				})
			}
		}
	}
}

// goesOn says whether collective operations are as they must be, and nothing is left of others.
func goesOn(ctx context.Context, w *mpi.World) error {
	for round := range 3 {
		sum := []int64{int64(w.Rank() + round)}
		if err := mpi.Allreduce(ctx, &w.Comm, sum, sum, mpi.Sum[int64]()); err != nil {
			return fmt.Errorf("the next operation: %w", err)
		}
		n := int64(w.Size())
		if want := n*(n-1)/2 + n*int64(round); sum[0] != want {
			return fmt.Errorf("the next sum is %d, not %d", sum[0], want)
		}
	}
	err := w.Job().Fence(ctx) // Others are at work until then.
	if s := w.LayerStats(); err == nil && s.UnexpectedBytes > 0 {
		err = fmt.Errorf("%d messages, %d bytes are left", s.UnexpectedMessages, s.UnexpectedBytes)
	}
	return errors.Join(err, w.Job().Fence(ctx))
}
