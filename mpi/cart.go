package mpi

import (
	"context"
	"fmt"
	"slices"
)

// Cart is a communicator whose ranks form a grid of any number of dimensions (MPI_Cart_create).
// The ranks of the grid are in row-major order, so that the last coordinate changes fastest.
type Cart struct {
	*Comm

	dims     []int
	periodic []bool
}

// DimsCreate replaces each zero in the slice "dims" by a size of the dimension, so that the product
// of all sizes in "dims" equals the argument "ranks" (MPI_Dims_create). The sizes that DimsCreate
// chooses are as equal as possible, and in non-increasing order. The product of the sizes that
// DimsCreate chooses is at most RanksMax. If a size in the slice "dims" is negative, or if no sizes
// have the required product, DimsCreate returns ErrGrid and does not change the slice "dims".
func DimsCreate(ranks int, dims []int) error {
	left, free := ranks, make([]int, 0, len(dims))
	for i, d := range dims {
		switch {
		case d == 0:
			free = append(free, i)
		case d < 0 || left%d != 0:
			return fmt.Errorf("%w: %d in dimension %d, for %d ranks", ErrGrid, d, i, ranks)
		default:
			left /= d
		}
	}
	chosen := make([]int, len(free))
	if left < 1 || left > RanksMax || !factorize(left, left, chosen) {
		return fmt.Errorf("%w: %v for %d ranks", ErrGrid, dims, ranks)
	}
	for i, d := range chosen {
		dims[free[i]] = d
	}
	return nil
}

// The function "factorize" fills the slice "factors" with non-increasing factors whose product is
// n, and none of which exceeds "most". If n is not a product of len(factors) factors of at most
// "most", the function "factorize" returns false.
func factorize(n, most int, factors []int) bool {
	if len(factors) == 0 {
		return n == 1
	}
	for d := 1; d <= min(n, most); d++ {
		if n%d == 0 && reaches(d, len(factors), n) && factorize(n/d, d, factors[1:]) {
			factors[0] = d
			return true
		}
	}
	return false
}

// The function "reaches" reports whether d to the power of k is at least n.
func reaches(d, k, n int) bool {
	power := 1
	for ; k > 0 && power < n && d > 1; k-- {
		power *= d
	}
	return power >= n
}

// NewCart makes a grid of the first ranks of the communicator c, in the order of c, with one rank
// at each position of the grid (MPI_Cart_create). At the ranks of c that are not in the grid,
// NewCart returns nil. In a periodic dimension, the last position is a neighbour of the first
// position. All ranks of c must call NewCart with the same arguments. NewCart returns ErrGrid if c
// has fewer ranks than the grid has positions. NewCart can also return all errors of Split.
func NewCart(ctx context.Context, c *Comm, dims []int, periodic []bool) (*Cart, error) {
	places := 1
	for _, d := range dims {
		if d < 1 || places > c.Size()/d {
			return nil, c.refuseSplit(fmt.Errorf("%w: %v of %d ranks", ErrGrid, dims, c.Size()))
		}
		places *= d
	}
	if len(dims) != len(periodic) {
		return nil, c.refuseSplit(fmt.Errorf(
			"%w: %d dimensions, of %d it is said if they are periodic", ErrGrid, len(dims), len(periodic)))
	}
	colour := NoColour
	if c.rank < places {
		colour = 0
	}
	made, err := c.Split(ctx, colour, c.rank)
	if made == nil {
		return nil, err
	}
	return &Cart{made, slices.Clone(dims), slices.Clone(periodic)}, nil
}

// Dims returns the number of positions in each dimension (MPI_Cart_get).
func (g *Cart) Dims() []int { return slices.Clone(g.dims) }

// Periodic reports which dimensions are periodic (MPI_Cart_get).
func (g *Cart) Periodic() []bool { return slices.Clone(g.periodic) }

// Coords returns the coordinates of a rank (MPI_Cart_coords). Coords returns ErrRank if the grid
// has no such rank.
func (g *Cart) Coords(rank int) ([]int, error) {
	if rank < 0 || rank >= g.Size() {
		return nil, fmt.Errorf("%w: %d of %d", ErrRank, rank, g.Size())
	}
	at := make([]int, len(g.dims))
	for i := len(at) - 1; i >= 0; i-- {
		at[i] = rank % g.dims[i]
		rank /= g.dims[i]
	}
	return at, nil
}

// RankAt returns the rank with the given coordinates (MPI_Cart_rank). A coordinate of a periodic
// dimension wraps around. If a coordinate of a dimension that is not periodic is beyond the edge of
// the grid, RankAt returns NoRank. RankAt returns ErrGrid if the number of coordinates is not the
// number of dimensions of the grid.
func (g *Cart) RankAt(at ...int) (int, error) {
	if len(at) != len(g.dims) {
		return NoRank, fmt.Errorf("%w: %d coordinates, want %d", ErrGrid, len(at), len(g.dims))
	}
	rank := 0
	for i, x := range at {
		d := g.dims[i]
		if g.periodic[i] {
			x = (x%d + d) % d
		}
		if x < 0 || x >= d {
			return NoRank, nil
		}
		rank = rank*d + x
	}
	return rank, nil
}

// Shift returns the partners of this rank in an exchange in which each rank sends a message along
// the dimension "dim" of the grid (MPI_Cart_shift). In the dimension "dim", the coordinate of the
// destination is the coordinate of the sender plus the argument "by". The result "from" is the rank
// from which this rank receives, and the result "to" is the rank to which this rank sends. In a
// dimension that is not periodic, a result of Shift that is beyond the edge of the grid is NoRank.
// Shift returns ErrGrid if the grid has no dimension "dim".
func (g *Cart) Shift(dim, by int) (from, to int, err error) {
	if dim < 0 || dim >= len(g.dims) {
		return NoRank, NoRank, fmt.Errorf("%w: dimension %d of %d", ErrGrid, dim, len(g.dims))
	}
	at, err := g.Coords(g.Rank())
	if err != nil {
		return NoRank, NoRank, err
	}
	own, size := at[dim], g.dims[dim]
	if g.periodic[dim] { // The limits keep the sum below from overflowing.
		by %= size
	} else {
		by = max(-size, min(by, size))
	}
	at[dim] = own - by
	if from, err = g.RankAt(at...); err != nil {
		return NoRank, NoRank, err
	}
	at[dim] = own + by
	to, err = g.RankAt(at...)
	return from, to, err
}

// Sub returns a part of the grid, such as a row or a plane (MPI_Cart_sub). The grid that Sub
// returns has the dimensions d for which keep[d] is true. In each dimension d for which keep[d] is
// false, all ranks of the new grid have the same coordinate in this grid as the calling rank. All
// ranks of the grid must call Sub with the same slice "keep". Sub returns ErrGrid if the length of
// the slice "keep" is not the number of dimensions, and can also return all errors of Split.
func (g *Cart) Sub(ctx context.Context, keep []bool) (*Cart, error) {
	if len(keep) != len(g.dims) {
		err := fmt.Errorf("%w: %d dimensions, want %d", ErrGrid, len(keep), len(g.dims))
		return nil, g.refuseSplit(err)
	}
	at, err := g.Coords(g.Rank())
	if err != nil {
		return nil, g.refuseSplit(err)
	}
	part, colour := &Cart{}, 0
	for i, d := range g.dims {
		if keep[i] {
			part.dims = append(part.dims, d)
			part.periodic = append(part.periodic, g.periodic[i])
			continue
		}
		colour = colour*d + at[i]
	}
	if part.Comm, err = g.Split(ctx, colour, g.Rank()); err != nil {
		return nil, err
	}
	return part, nil
}
