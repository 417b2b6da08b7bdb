package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"gobtl/internal/testenv"
	"gobtl/mpi"
)

// concat is an operation for which the order matters: x -> ax+b, one after the other.
type affine struct{ A, B uint32 }

var concat = mpi.NewOp(func(p, q affine) affine { return affine{p.A * q.A, p.A*q.B + p.B} }, false)

// Every operation has the result that a loop over the ranks has, small and large, blocking and not.
func TestCollectives(t *testing.T) {
	for _, size := range []int{1, 2, 3, 4, 7} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			run(t, "udp", size, func(ctx context.Context, w *mpi.World) error {
				for _, n := range []int{1, 10, 20_000} {
					if err := errors.Join(reductions(ctx, &w.Comm, n), movements(ctx, &w.Comm, n),
						many(ctx, &w.Comm, n)); err != nil {
						return fmt.Errorf("%d values: %w", n, err)
					}
				}
				return nil
			})
		})
	}
}

// of is what a rank has.
func of(rank, n int) []affine {
	values := make([]affine, n)
	for i := range values {
		values[i] = affine{uint32(2*rank + 3), uint32(i*7 + rank)}
	}
	return values
}

// upTo is what the ranks before one have together.
func upTo(end, n int) []affine {
	acc := of(0, n)
	for r := 1; r < end; r++ {
		for i, v := range of(r, n) {
			acc[i] = affine{acc[i].A * v.A, acc[i].A*v.B + acc[i].B}
		}
	}
	return acc
}

func same[T comparable](name string, got, want []T) error {
	for i := range want {
		if len(got) != len(want) || got[i] != want[i] {
			return fmt.Errorf("%s: value %d of %d is not %v", name, i, len(got), want[i])
		}
	}
	return nil
}

func reductions(ctx context.Context, c *mpi.Comm, n int) error {
	me, size := c.Rank(), c.Size()
	in, out := of(me, n), make([]affine, n)
	sums, sum := make([]float64, n), 0.0
	for i := range sums {
		sums[i] = float64(me + i)
	}
	for r := range size {
		sum += float64(r + n - 1)
	}
	err := mpi.Allreduce(ctx, c, sums, sums, mpi.Sum[float64]()) // in place
	if err != nil || sums[n-1] != sum {
		return fmt.Errorf("sum %v, want %v, %w", sums[n-1], sum, err)
	}
	if err := mpi.Allreduce(ctx, c, in, out, concat); err != nil {
		return err
	}
	errs := same("allreduce", out, upTo(size, n))
	clear(out)
	if err := mpi.Reduce(ctx, c, in, out, concat, size-1); err != nil {
		return err
	}
	if me == size-1 {
		errs = errors.Join(errs, same("reduce", out, upTo(size, n)))
	}
	if err := mpi.Scan(ctx, c, in, out, concat); err != nil {
		return err
	}
	errs = errors.Join(errs, same("scan", out, upTo(me+1, n)))
	if err := mpi.Exscan(ctx, c, in, out, concat); err != nil {
		return err
	}
	if me > 0 {
		errs = errors.Join(errs, same("exscan", out, upTo(me, n)))
	}
	part := make([]affine, n)
	if err := mpi.ReduceScatter(ctx, c, of(me, n*size), part, nil, concat); err != nil {
		return err
	}
	return errors.Join(errs, same("reduce-scatter", part, upTo(size, n*size)[me*n:(me+1)*n]))
}

func movements(ctx context.Context, c *mpi.Comm, n int) error {
	me, size := c.Rank(), c.Size()
	root, data := size/2, of(me, n)
	if err := mpi.Bcast(ctx, c, data, root); err != nil {
		return err
	}
	errs := same("bcast", data, of(root, n))
	// Rank r has n+r values, one behind the other in all.
	counts := make([]int, size)
	var whole []affine
	for r := range counts {
		counts[r] = n + r
		whole = append(whole, of(r, n+r)...)
	}
	mine, all := of(me, n+me), make([]affine, len(whole))
	if err := mpi.Allgatherv(ctx, c, mine, all, counts); err != nil {
		return err
	}
	errs = errors.Join(errs, same("allgatherv", all, whole))
	clear(all)
	if err := mpi.Gatherv(ctx, c, mine, all, counts, root); err != nil {
		return err
	}
	if me == root {
		errs = errors.Join(errs, same("gatherv", all, whole))
	}
	clear(mine)
	if err := mpi.Scatterv(ctx, c, whole, mine, counts, root); err != nil {
		return err
	}
	errs = errors.Join(errs, same("scatterv", mine, of(me, n+me)))
	// Value i for rank j, from each.
	var out, in, want []int32
	for r := range size {
		out = append(out, slices.Repeat([]int32{int32(me*100 + r)}, n)...)
		want = append(want, slices.Repeat([]int32{int32(r*100 + me)}, n)...)
	}
	in = make([]int32, len(want))
	if err := mpi.Alltoall(ctx, c, out, in); err != nil {
		return err
	}
	return errors.Join(errs, same("alltoall", in, want), mpi.Barrier(ctx, c))
}

// many has several operations under way at once, waited for in another order.
func many(ctx context.Context, c *mpi.Comm, n int) error {
	const count = 5
	var requests [count]mpi.Request
	var outs [count][]affine
	for i := range requests {
		outs[i] = make([]affine, n)
		if err := mpi.Iallreduce(&requests[i], c, of(c.Rank(), n), outs[i], concat); err != nil {
			return err
		}
	}
	var barrier mpi.Request
	if err := mpi.Ibarrier(&barrier, c); err != nil {
		return err
	}
	if _, err := barrier.Wait(ctx); err != nil {
		return err
	}
	for i := range requests {
		r := &requests[(i+c.Rank())%count]
		if _, err := r.Wait(ctx); err != nil {
			return err
		}
	}
	var errs error
	for _, out := range outs {
		errs = errors.Join(errs, same("many", out, upTo(c.Size(), n)))
	}
	return errs
}

// Communicators keep their messages apart, number their ranks anew, and are used at once.
func TestSplit(t *testing.T) {
	const size = 6
	run(t, "udp", size, func(ctx context.Context, w *mpi.World) error {
		twin, err := w.Dup(ctx)
		if err != nil {
			return err
		}
		// The same source and tag in two communicators: each gets its own.
		var r mpi.Request
		right, left := (w.Rank()+1)%size, (w.Rank()+size-1)%size
		in := make([]int32, 1)
		if err := mpi.Irecv(&r, twin, in, mpi.AnySource, mpi.AnyTag); err != nil {
			return err
		}
		other := make([]int32, 1)
		_, err = mpi.Sendrecv(ctx, &w.Comm, []int32{1}, right, 5, other, mpi.AnySource, mpi.AnyTag)
		if err == nil {
			err = mpi.Send(ctx, twin, []int32{2}, right, 5)
		}
		if err != nil {
			return err
		}
		if s, err := r.Wait(ctx); err != nil || s.Source != left || in[0] != 2 || other[0] != 1 {
			return fmt.Errorf("%+v, %d, %d, %w", s, in[0], other[0], err)
		}
		// Odd and even ranks, in reverse order; rank 5 in none.
		colour := w.Rank() % 2
		if w.Rank() == 5 {
			colour = mpi.NoColour
		}
		half, err := w.Split(ctx, colour, -w.Rank())
		if err != nil || (half == nil) != (w.Rank() == 5) {
			return fmt.Errorf("split: %v, %w", half, err)
		}
		if half != nil {
			ranks := make([]int32, half.Size())
			err := mpi.Allgather(ctx, half, []int32{int32(w.Rank())}, ranks)
			want := [][]int32{{4, 2, 0}, {3, 1}}[colour]
			if err != nil || !slices.Equal(ranks, want) || half.WorldRank(half.Rank()) != w.Rank() {
				return fmt.Errorf("colour %d: %v, %w", colour, ranks, err)
			}
		}
		node, err := twin.SplitByNode(ctx)
		if err != nil || node.Size() != 2 || node.Rank() != w.Rank()%2 {
			return fmt.Errorf("node: %+v, %w", node, err)
		}
		return mpi.Barrier(ctx, node)
	})
}

// Lengths that do not fit are told, before anything is sent.
func TestCounts(t *testing.T) {
	run(t, "mem/local", 2, func(ctx context.Context, w *mpi.World) error {
		c, one, two, three := &w.Comm, []int32{1}, []int32{1, 2}, make([]int32, 3)
		sum := mpi.Sum[int32]()
		for i, is := range []struct{ err, want error }{
			{mpi.Allreduce(ctx, c, one, two, sum), mpi.ErrCount},
			{mpi.Allreduce(ctx, c, three[:2], three[1:], sum), mpi.ErrConfig},
			{mpi.Scan(ctx, c, three[1:], three[:2], sum), mpi.ErrConfig},
			{mpi.Allreduce(ctx, c, one, one, mpi.Op[int32]{}), mpi.ErrConfig},
			{mpi.Bcast(ctx, c, one, 2), mpi.ErrRank},
			{mpi.Bcast(ctx, c, []string{""}, 0), mpi.ErrType},
			{mpi.Allgather(ctx, c, one, one), mpi.ErrCount},
			{mpi.Allgatherv(ctx, c, one, two, []int{1}), mpi.ErrCount},
			{mpi.Allgatherv(ctx, c, one, two, []int{-1, 3}), mpi.ErrCount},
			{mpi.Allgatherv(ctx, c, two, two, []int{1, 1}), mpi.ErrCount},
			{mpi.Alltoall(ctx, c, []int32{1, 2, 3}, two), mpi.ErrCount},
			{mpi.ReduceScatter(ctx, c, two, two, nil, sum), mpi.ErrCount},
			{mpi.Scatterv(ctx, c, two, two, []int{1, 1}, 0), mpi.ErrCount},
		} {
			if !errors.Is(is.err, is.want) {
				return fmt.Errorf("case %d: %w, want: %w", i, is.err, is.want)
			}
		}
		return mpi.Barrier(ctx, c)
	})
}

// An allreduce of few values allocates nothing, alone and among several ranks, all of which are in
// this process and are counted.
func TestAllreduceAllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	const runs = 500
	for _, ranks := range []int{1, 2, 4} {
		run(t, "mem/local", ranks, func(ctx context.Context, w *mpi.World) error {
			data, sum := make([]float64, 8), mpi.Sum[float64]()
			var failed error
			once := func() {
				clear(data)
				if err := errors.Join(mpi.Allreduce(ctx, &w.Comm, data, data, sum),
					mpi.Barrier(ctx, &w.Comm)); err != nil {
					failed = err
				}
			}
			for range 2000 {
				once()
			}
			if w.Rank() > 0 {
				for range runs + 1 { // as AllocsPerRun
					once()
				}
				return failed
			}
			if n := testing.AllocsPerRun(runs, once); n != 0 || failed != nil {
				return fmt.Errorf("%d ranks: %v allocations, %w", ranks, n, failed)
			}
			return nil
		})
	}
}
