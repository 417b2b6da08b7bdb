package main

import (
	"context"

	"gobtl/mpi"
)

// The four neighbours, in the order of a tile's requests.
const (
	above = iota
	below
	before
	after
	sides
)

// ratio is the time step by the square of the distance between cells, times the conductivity: up
// to .25 the explicit method is stable.
const ratio = .24

// tile is a rank's part of the plate, with a halo around it.
type tile struct {
	rows, columns int // without the halo
	now, next     []float64
	neighbours    [sides]int   // ranks, or mpi.NoRank
	out, in       [2][]float64 // the edges before and after, which do not lie in one piece
	requests      [2 * sides]*mpi.Request
}

// share is the first of n cells that is part's, when parts share them.
func share(n, part, parts int) int { return n * part / parts }

// newTile is the tile at row and column of a grid of tiles, on a plate of cells x cells whose upper
// edge is kept at 1 and whose other edges are kept at 0.
func newTile(cells, row, rows, column, columns int) *tile {
	t := &tile{
		rows:    share(cells, row+1, rows) - share(cells, row, rows),
		columns: share(cells, column+1, columns) - share(cells, column, columns),
	}
	t.now = make([]float64, (t.rows+2)*(t.columns+2))
	if row == 0 {
		for i := range t.columns + 2 {
			t.now[i] = 1
		}
	}
	t.next = append([]float64(nil), t.now...)
	for i := range t.neighbours {
		t.neighbours[i] = mpi.NoRank
	}
	for _, edge := range []*[2][]float64{&t.out, &t.in} {
		edge[0], edge[1] = make([]float64, t.rows), make([]float64, t.rows)
	}
	for i := range t.requests {
		t.requests[i] = new(mpi.Request)
	}
	return t
}

// place says who the neighbours are, of a tile that is rank's.
func (t *tile) place(row, rows, column, columns int) {
	rank := row*columns + column
	if row > 0 {
		t.neighbours[above] = rank - columns
	}
	if row < rows-1 {
		t.neighbours[below] = rank + columns
	}
	if column > 0 {
		t.neighbours[before] = rank - 1
	}
	if column < columns-1 {
		t.neighbours[after] = rank + 1
	}
}

// line is a row of the tile without its halo; row 0 is the halo above.
func (t *tile) line(row int) []float64 {
	at := row*(t.columns+2) + 1
	return t.now[at : at+t.columns]
}

// step makes one step in time.
func (t *tile) step(ctx context.Context, c *mpi.Comm) error {
	if err := t.exchange(c); err != nil {
		return err
	}
	t.compute(2, t.rows-1, 2, t.columns-1)
	if err := mpi.WaitAll(ctx, nil, t.requests[:]...); err != nil {
		return err
	}
	for side, from := range t.neighbours[before:] {
		if from == mpi.NoRank {
			continue
		}
		column := side * (t.columns + 1)
		for row, value := range t.in[side] {
			t.now[(row+1)*(t.columns+2)+column] = value
		}
	}
	t.compute(1, 1, 1, t.columns)
	if t.rows > 1 {
		t.compute(t.rows, t.rows, 1, t.columns)
	}
	t.compute(2, t.rows-1, 1, 1)
	if t.columns > 1 {
		t.compute(2, t.rows-1, t.columns, t.columns)
	}
	t.now, t.next = t.next, t.now
	return nil
}

// exchange begins to send the edges and to receive the halo. Tags say which side of the receiver it
// is, so that two neighbours which are one rank could be told apart.
func (t *tile) exchange(c *mpi.Comm) error {
	width := t.columns + 2
	for row := range t.rows {
		t.out[0][row], t.out[1][row] = t.now[(row+1)*width+1], t.now[(row+1)*width+t.columns]
	}
	edges := [sides][]float64{t.line(1), t.line(t.rows), t.out[0], t.out[1]}
	halos := [sides][]float64{t.line(0), t.line(t.rows + 1), t.in[0], t.in[1]}
	for side, rank := range t.neighbours {
		if err := mpi.Irecv(t.requests[side], c, halos[side], rank, side); err != nil {
			return err
		}
		if err := mpi.Isend(t.requests[sides+side], c, edges[side], rank, side^1); err != nil {
			return err
		}
	}
	return nil
}

// compute makes the next values of some rows and columns, the last ones included.
func (t *tile) compute(row, lastRow, column, lastColumn int) {
	width := t.columns + 2
	for ; row <= lastRow; row++ {
		for at := row*width + column; at <= row*width+lastColumn; at++ {
			now := t.now[at]
			around := t.now[at-width] + t.now[at+width] + t.now[at-1] + t.now[at+1]
			t.next[at] = now + ratio*(around-4*now)
		}
	}
}
