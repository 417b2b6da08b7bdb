package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"gobtl/mpi"
)

func TestDimsCreate(t *testing.T) {
	for _, is := range []struct {
		ranks      int
		dims, want []int // nil: an error
	}{
		{12, []int{0, 0}, []int{4, 3}},
		{12, []int{0, 2, 0}, []int{3, 2, 2}},
		{16, []int{0, 0, 0}, []int{4, 2, 2}},
		{7, []int{0, 0}, []int{7, 1}},
		{6, []int{3, 0}, []int{3, 2}},
		{6, []int{3, 2}, []int{3, 2}},
		{1, []int{0, 0, 0, 0}, []int{1, 1, 1, 1}},
		{1 << 20, []int{0, 0, 0}, []int{128, 128, 64}},
		{720720, []int{0, 0, 0, 0}, nil},
		{1, nil, []int{}},
		{6, []int{4, 0}, nil},
		{6, []int{2, 2}, nil},
		{6, []int{-2, -3}, nil},
		{0, []int{0, 0}, nil},
		{-4, []int{0}, nil},
		{6, nil, nil},
		{math.MaxInt/2 + 1, []int{0}, nil},
	} {
		dims := slices.Clone(is.dims)
		err := mpi.DimsCreate(is.ranks, dims)
		if is.ranks == 720720 { // the most even ones: no other has a smaller largest one
			is.want = []int{33, 30, 28, 26}
		}
		if is.want == nil {
			if !errors.Is(err, mpi.ErrGrid) || !slices.Equal(dims, is.dims) {
				t.Errorf("%d ranks in %v: %v, %v", is.ranks, is.dims, dims, err)
			}
		} else if err != nil || !slices.Equal(dims, is.want) {
			t.Errorf("%d ranks in %v: %v, %v, want %v", is.ranks, is.dims, dims, err, is.want)
		}
	}
}

// A grid with a dimension that is periodic and one that is not, on fewer ranks than there are.
func TestCart(t *testing.T) {
	run(t, "udp", 7, func(ctx context.Context, w *mpi.World) error {
		grid, err := mpi.NewCart(ctx, &w.Comm, []int{2, 3}, []bool{false, true})
		if err != nil {
			return err
		}
		if (grid == nil) != (w.Rank() == 6) {
			return fmt.Errorf("the grid is %v", grid)
		}
		if grid == nil {
			return nil
		}
		row, column := w.Rank()/3, w.Rank()%3
		at, err := grid.Coords(grid.Rank())
		if err != nil || !slices.Equal(at, []int{row, column}) || grid.Size() != 6 {
			return fmt.Errorf("rank %d of %d is at %v: %w", grid.Rank(), grid.Size(), at, err)
		}
		if _, err := grid.Coords(6); !errors.Is(err, mpi.ErrRank) {
			return fmt.Errorf("rank 6: %w", err)
		}
		return errors.Join(places(grid), shifts(grid, row, column), subs(ctx, grid, row, column),
			halo(ctx, grid))
	})
}

// places looks up coordinates, within the grid and beyond.
func places(grid *mpi.Cart) error {
	for at, want := range map[[2]int]int{
		{1, 2}: 5, {0, 3}: 0, {1, -1}: 5, {1, -7}: 5, {2, 0}: mpi.NoRank, {-1, 1}: mpi.NoRank,
	} {
		if rank, err := grid.RankAt(at[0], at[1]); rank != want || err != nil {
			return fmt.Errorf("at %v is %d, want %d: %w", at, rank, want, err)
		}
	}
	if _, err := grid.RankAt(1); !errors.Is(err, mpi.ErrGrid) {
		return fmt.Errorf("one coordinate of two: %w", err)
	}
	if !slices.Equal(grid.Dims(), []int{2, 3}) ||
		!slices.Equal(grid.Periodic(), []bool{false, true}) {
		return fmt.Errorf("dimensions are %v, %v", grid.Dims(), grid.Periodic())
	}
	return nil
}

func shifts(grid *mpi.Cart, row, column int) error {
	rank := func(row, column int) int {
		if row < 0 || row > 1 {
			return mpi.NoRank
		}
		return row*3 + (column+9)%3
	}
	for _, by := range []int{0, 1, -1, 2, 3, 4, -4, 6} {
		from, to, err := grid.Shift(0, by)
		if err != nil || from != rank(row-by, column) || to != rank(row+by, column) {
			return fmt.Errorf("down by %d: %d to %d, %w", by, from, to, err)
		}
		from, to, err = grid.Shift(1, by)
		if err != nil || from != rank(row, column-by) || to != rank(row, column+by) {
			return fmt.Errorf("right by %d: %d to %d, %w", by, from, to, err)
		}
	}
	from, to, err := grid.Shift(0, math.MaxInt)
	if from != mpi.NoRank || to != mpi.NoRank || err != nil {
		return fmt.Errorf("far: %d to %d, %w", from, to, err)
	}
	if _, _, err := grid.Shift(2, 1); !errors.Is(err, mpi.ErrGrid) {
		return fmt.Errorf("a third dimension: %w", err)
	}
	return nil
}

// subs sums up rows, columns, all and each alone.
func subs(ctx context.Context, grid *mpi.Cart, row, column int) error {
	for _, is := range []struct {
		keep      [2]bool
		sum, rank int
	}{
		{[2]bool{false, true}, 9*row + 3, column},
		{[2]bool{true, false}, 2*column + 3, row},
		{[2]bool{true, true}, 15, grid.Rank()},
		{[2]bool{}, grid.Rank(), 0},
	} {
		part, err := grid.Sub(ctx, is.keep[:])
		if err != nil {
			return err
		}
		sum := []int64{0}
		mine := []int64{int64(grid.Rank())}
		if err := mpi.Allreduce(ctx, part.Comm, mine, sum, mpi.Sum[int64]()); err != nil {
			return err
		}
		var dims []int
		for i, d := range grid.Dims() {
			if is.keep[i] {
				dims = append(dims, d)
			}
		}
		if sum[0] != int64(is.sum) || part.Rank() != is.rank || !slices.Equal(part.Dims(), dims) {
			return fmt.Errorf("%v: sum %d, rank %d of %v", is.keep, sum[0], part.Rank(), part.Dims())
		}
	}
	if _, err := grid.Sub(ctx, []bool{true}); !errors.Is(err, mpi.ErrGrid) {
		return fmt.Errorf("one dimension of two: %w", err)
	}
	return nil
}

// halo sends along each dimension. Beyond the edge no rank answers.
func halo(ctx context.Context, grid *mpi.Cart) error {
	for dim := range 2 {
		from, to, err := grid.Shift(dim, 1)
		if err != nil {
			return err
		}
		in := []int32{-1}
		s, err := mpi.Sendrecv(ctx, grid.Comm, []int32{int32(grid.Rank())}, to, dim, in, from, dim)
		if err != nil || s.Source != from || int(in[0]) != max(from, -1) {
			return fmt.Errorf("of %d came %d, %+v: %w", from, in[0], s, err)
		}
	}
	return nil
}

// Grids that do not fit are errors.
func TestCartArguments(t *testing.T) {
	run(t, "mem/local", 2, func(ctx context.Context, w *mpi.World) error {
		for _, is := range []struct {
			dims     []int
			periodic []bool
		}{
			{[]int{3}, []bool{true}},
			{[]int{2, 2}, []bool{true, true}},
			{[]int{0}, []bool{true}},
			{[]int{-1, -2}, []bool{true, true}},
			{[]int{2, math.MaxInt/2 + 1}, []bool{true, true}},
			{[]int{2}, nil},
		} {
			if _, err := mpi.NewCart(ctx, &w.Comm, is.dims, is.periodic); !errors.Is(err, mpi.ErrGrid) {
				return fmt.Errorf("%v: %w", is.dims, err)
			}
		}
		return nil
	})
}
