package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"gobtl/mpi"
)

// Slices of which an operation would read what it has written are refused, and what comes next is
// right.
func TestOverlap(t *testing.T) {
	const size = 3
	run(t, "mem/local", size, func(ctx context.Context, w *mpi.World) error {
		c, sum, me := &w.Comm, mpi.Sum[int32](), w.Rank()
		other := (me + 1) % size
		x, ones := make([]int32, 8), []int{1, 1, 1}
		win, err := mpi.NewWindow(ctx, c, make([]int32, 4))
		if err != nil {
			return err
		}
		var r mpi.Request
		for i, err := range []error{ // each rank is the root of its own
			mpi.Allreduce(ctx, c, x[:2], x[1:3], sum),
			mpi.Scan(ctx, c, x[1:3], x[:2], sum),
			mpi.Alltoall(ctx, c, x[:3], x[1:4]),
			mpi.Ialltoall(&r, c, x[2:5], x[:3]),
			mpi.AlltoallInit(&r, c, x[1:4], x[:3]),
			mpi.Alltoallv(ctx, c, x[:3], ones, x[1:4], ones),
			mpi.Gather(ctx, c, x[other:other+1], x[:3], me),
			mpi.Igatherv(&r, c, x[other:other+1], x[:3], ones, me),
			mpi.Allgather(ctx, c, x[other:other+1], x[:3]),
			mpi.Scatter(ctx, c, x[:3], x[other:other+1], me),
			mpi.ScatterInit(&r, c, x[:6], x[2*me+1:2*me+3], me),
			second(mpi.Sendrecv(ctx, c, x[:3], other, 0, x[2:4], mpi.AnySource, 0)),
			win.GetAccumulate(ctx, x[:2], x[1:3], 0, 0, sum),
			sum.Local(x[:2], x[1:3]),
		} {
			if !errors.Is(err, mpi.ErrConfig) {
				return fmt.Errorf("case %d: %w", i, err)
			}
		}
		return errors.Join(inPlace(ctx, c, 1), inPlace(ctx, c, 20_000), win.Free(ctx))
	})
}

// inPlace does the operations of which a rank's part may be where it comes from, or goes to.
func inPlace(ctx context.Context, c *mpi.Comm, n int) error {
	me, size := c.Rank(), c.Size()
	part := func(from, to int) []int32 { return slices.Repeat([]int32{int32(100*from + to)}, n) }
	given, taken, gathered := []int32{}, []int32{}, []int32{} // by Alltoall; by Allgather
	for rank := range size {
		given = append(given, part(me, rank)...)
		taken = append(taken, part(rank, me)...)
		gathered = append(gathered, part(rank, rank)...)
	}
	x := slices.Clone(given)
	err := mpi.Alltoall(ctx, c, x, x)
	errs := errors.Join(err, same("alltoall", x, taken))
	counts := slices.Repeat([]int{n}, size)
	x = slices.Clone(given)
	err = mpi.Alltoallv(ctx, c, x, counts, x, counts)
	errs = errors.Join(errs, err, same("alltoallv", x, taken))
	x = slices.Clone(given) // has the rank's own part at its place
	err = mpi.Allgather(ctx, c, x[me*n:][:n], x)
	errs = errors.Join(errs, err, same("allgather", x, gathered))
	x = slices.Clone(given)
	err = mpi.Gather(ctx, c, x[me*n:][:n], x, 1)
	if me == 1 {
		errs = errors.Join(errs, same("gather", x, gathered))
	}
	x = slices.Clone(given)
	errs = errors.Join(errs, err, mpi.Scatter(ctx, c, x, x[me*n:][:n], 1),
		same("scatter", x[me*n:][:n], part(1, me)))
	return errs
}

// Ranks may use the memory of one that is not the root's, or that is nobody's, as they like.
func TestMemoryThatIsNotUsed(t *testing.T) {
	run(t, "mem/local", 2, func(ctx context.Context, w *mpi.World) error {
		c, x := &w.Comm, []int32{1, 2, 3}
		if w.Rank() == 0 {
			return errors.Join(mpi.Gather(ctx, c, []int32{7}, make([]int32, 2), 0),
				mpi.Scatter(ctx, c, []int32{8, 9}, make([]int32, 1), 0),
				mpi.Exscan(ctx, c, []int32{5}, nil, mpi.Sum[int32]()))
		}
		err := errors.Join(mpi.Gather(ctx, c, x[:1], x, 0), mpi.Scatter(ctx, c, x, x[:1], 0),
			mpi.Exscan(ctx, c, x[1:2], x[2:], mpi.Sum[int32]()))
		return errors.Join(err, same("scatter, exscan", x, []int32{9, 2, 5}))
	})
}
