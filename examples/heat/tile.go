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
	requests      [2][]*mpi.Request // what is exchanged with now in each of the two places in turn
	turn          int
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
	return t
}

// place readies the exchange with the neighbours: for both places of the tile the edges are sent
// and the halo is received. Rows lie in one piece, columns have a width between their cells. Tags
// say which side of the receiver it is, so that two neighbours which are one rank could be told
// apart.
func (t *tile) place(grid *mpi.Cart) error {
	var neighbours [sides]int
	for dim := range 2 {
		low, high, err := grid.Shift(dim, 1)
		if err != nil {
			return err
		}
		neighbours[2*dim], neighbours[2*dim+1] = low, high
	}
	width := t.columns + 2
	edges := [sides]int{width + 1, t.rows*width + 1, width + 1, width + t.columns}
	halos := [sides]int{1, (t.rows+1)*width + 1, width, width + t.columns + 1}
	for turn, cells := range [][]float64{t.now, t.next} {
		for side, rank := range neighbours {
			count, block := 1, t.columns
			if side >= before {
				count, block = t.rows, 1
			}
			edge, err := mpi.Strided(cells[edges[side]:], count, block, width)
			if err != nil {
				return err
			}
			halo, err := mpi.Strided(cells[halos[side]:], count, block, width)
			if err != nil {
				return err
			}
			in, out := new(mpi.Request), new(mpi.Request)
			if err := halo.RecvInit(in, grid.Comm, rank, side); err != nil {
				return err
			}
			if err := edge.SendInit(out, grid.Comm, rank, side^1); err != nil {
				return err
			}
			t.requests[turn] = append(t.requests[turn], in, out)
		}
	}
	return nil
}

// line is a row of the tile without its halo; row 0 is the halo above.
func (t *tile) line(row int) []float64 {
	at := row*(t.columns+2) + 1
	return t.now[at : at+t.columns]
}

// step makes one step in time.
func (t *tile) step(ctx context.Context) error {
	if err := mpi.StartAll(t.requests[t.turn]...); err != nil {
		return err
	}
	t.compute(2, t.rows-1, 2, t.columns-1)
	if err := mpi.WaitAll(ctx, nil, t.requests[t.turn]...); err != nil {
		return err
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
	t.turn = 1 - t.turn
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
