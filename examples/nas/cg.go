package main

import (
	"context"
	"math"
	"slices"

	"gobtl/mpi"
)

// cgClass is a problem of kernel cg: the matrix' rows, the numbers in each of the vectors that make
// it, the iterations, the shift, and the published zeta.
type cgClass struct {
	n, nonzeros, iterations int
	shift, zeta             float64
}

var cgClasses = map[string]cgClass{
	"S": {1400, 7, 15, 10, 8.5971775078648},
	"W": {7000, 8, 15, 12, 10.362595087124},
}

const (
	cgCondition  = .1 // of the matrix, the reciprocal
	cgInner      = 25 // iterations of the conjugate gradient
	cgTolerance  = 1e-10
	cgDiagonal   = .5
	cgSkipNumber = 1 // numbers that NPB draws before it makes the matrix
)

// sparse are rows of a matrix: those of one rank.
type sparse struct {
	starts  []int // where each row begins in the other two, and behind the last one
	columns []int32
	values  []float64
}

// entry is a value of a row.
type entry struct {
	column int32
	value  float64
}

// newSparse makes the rows from first to last: the sum, over i, of the products x x' of random
// sparse vectors, weighted with a geometric series, with the shift on the diagonal. All ranks draw
// the same vectors, and keep the elements of their rows.
func newSparse(class cgClass, first, last int) *sparse {
	rows := make([][]entry, last-first)
	r := random(cgisftSeed)
	r.skip(cgSkipNumber)
	size, ratio := 1.0, math.Pow(cgCondition, 1/float64(class.n))
	for i := range class.n {
		x := sparseVector(&r, class, i)
		for _, a := range x {
			if int(a.column) < first || int(a.column) >= last {
				continue
			}
			row := int(a.column) - first
			scale := size * a.value
			for _, b := range x {
				value := b.value * scale
				if a.column == b.column && int(a.column) == i {
					value += cgCondition - class.shift
				}
				rows[row] = append(rows[row], entry{b.column, value})
			}
		}
		size *= ratio
	}
	return compress(rows)
}

// sparseVector draws a vector of random values at random places; at place i it has cgDiagonal.
func sparseVector(r *random, class cgClass, i int) []entry {
	power := 1
	for power < class.n {
		power *= 2
	}
	var x []entry
	has := func(column int32) int {
		return slices.IndexFunc(x, func(e entry) bool { return e.column == column })
	}
	for len(x) < class.nonzeros {
		value := r.next()
		column := int32(r.next() * float64(power))
		if int(column) < class.n && has(column) < 0 {
			x = append(x, entry{column, value})
		}
	}
	if at := has(int32(i)); at >= 0 {
		x[at].value = cgDiagonal
		return x
	}
	return append(x, entry{int32(i), cgDiagonal})
}

// compress sums the elements at each place, and stores the rows contiguously.
func compress(rows [][]entry) *sparse {
	m := &sparse{starts: make([]int, 1, len(rows)+1)}
	for _, row := range rows {
		slices.SortStableFunc(row, func(a, b entry) int { return int(a.column) - int(b.column) })
		for i, e := range row {
			if i > 0 && row[i-1].column == e.column {
				m.values[len(m.values)-1] += e.value
				continue
			}
			m.columns = append(m.columns, e.column)
			m.values = append(m.values, e.value)
		}
		m.starts = append(m.starts, len(m.values))
	}
	return m
}

// times multiplies the rows with a whole vector.
func (m *sparse) times(x, y []float64) {
	for i := range y {
		from, to := m.starts[i], m.starts[i+1]
		sum := 0.0
		for k, column := range m.columns[from:to] {
			sum += m.values[from+k] * x[column]
		}
		y[i] = sum
	}
}

// gradient is a rank's part of the solver: its rows, and the same part of each vector.
type gradient struct {
	c          *mpi.Comm
	rows       *sparse
	parts      []int     // rows of each rank
	whole      []float64 // a vector of all ranks
	x, z, p, q []float64
	r          []float64
	sum        [1]float64
}

// cg finds the least eigenvalue by inverse iteration, with the conjugate gradient inside.
func cg(ctx context.Context, c *mpi.Comm, name string) (verdict, error) {
	class := cgClasses[name]
	g := &gradient{c: c, whole: make([]float64, class.n), parts: make([]int, c.Size())}
	for rank := range g.parts {
		g.parts[rank] = share(class.n, rank+1, c.Size()) - share(class.n, rank, c.Size())
	}
	first := share(class.n, c.Rank(), c.Size())
	g.rows = newSparse(class, first, first+g.parts[c.Rank()])
	for _, v := range []*[]float64{&g.x, &g.z, &g.p, &g.q, &g.r} {
		*v = make([]float64, g.parts[c.Rank()])
	}
	for i := range g.x {
		g.x[i] = 1
	}
	zeta := 0.0
	for range class.iterations {
		if err := g.solve(ctx); err != nil {
			return verdict{}, err
		}
		xz, err := g.dot(ctx, g.x, g.z)
		if err != nil {
			return verdict{}, err
		}
		zz, err := g.dot(ctx, g.z, g.z)
		if err != nil {
			return verdict{}, err
		}
		zeta = class.shift + 1/xz
		for i, z := range g.z {
			g.x[i] = z / math.Sqrt(zz)
		}
	}
	v := verdict{what: "zeta"}
	v.compare(zeta, class.zeta, cgTolerance)
	return v, nil
}

// dot is the product of two vectors of all ranks.
func (g *gradient) dot(ctx context.Context, a, b []float64) (float64, error) {
	g.sum[0] = 0
	for i, x := range a {
		g.sum[0] += x * b[i]
	}
	err := mpi.Allreduce(ctx, g.c, g.sum[:], g.sum[:], mpi.Sum[float64]())
	return g.sum[0], err
}

// solve brings z near to the solution of A z = x.
func (g *gradient) solve(ctx context.Context) error {
	clear(g.z)
	copy(g.r, g.x)
	copy(g.p, g.x)
	rho, err := g.dot(ctx, g.r, g.r)
	for i := 0; i < cgInner && err == nil; i++ {
		if err := mpi.Allgatherv(ctx, g.c, g.p, g.whole, g.parts); err != nil {
			return err
		}
		g.rows.times(g.whole, g.q)
		pq, err := g.dot(ctx, g.p, g.q)
		if err != nil {
			return err
		}
		alpha := rho / pq
		for k, p := range g.p {
			g.z[k] += alpha * p
			g.r[k] -= alpha * g.q[k]
		}
		rho0 := rho
		if rho, err = g.dot(ctx, g.r, g.r); err != nil {
			return err
		}
		for k, r := range g.r {
			g.p[k] = r + rho/rho0*g.p[k]
		}
	}
	return err
}
