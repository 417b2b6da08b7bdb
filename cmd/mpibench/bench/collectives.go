package bench

import (
	"context"

	"gobtl/mpi"
)

// operation is one rank's part in a collective operation. fill prepares the input before an
// iteration, and check verifies the output after the iteration.
type operation struct {
	fill  func(iteration int)
	do    func(ctx context.Context) error
	check func(iteration int) error
}

// The function collective prepares a test of a collective operation. All ranks synchronize before
// each operation, so that no rank is ahead of the other ranks. A test of a barrier needs no
// synchronization before each operation.
func collective(of func(t *trial) operation) func(t *trial) func(context.Context, int) error {
	return func(t *trial) func(context.Context, int) error {
		op, iteration := of(t), 0
		return func(ctx context.Context, n int) error {
			for range n {
				if iteration++; t.Verify && op.fill != nil {
					op.fill(iteration)
				}
				if op.fill != nil {
					if err := mpi.Barrier(ctx, t.c); err != nil {
						return err
					}
				}
				begin := t.now()
				if err := op.do(ctx); err != nil {
					return err
				}
				t.record(t.hist, t.now()-begin)
				if t.Verify && op.check != nil {
					t.look(op.check(iteration))
				}
			}
			return nil
		}
	}
}

func barrier(t *trial) operation {
	return operation{do: func(ctx context.Context) error { return mpi.Barrier(ctx, t.c) }}
}

func bcast(t *trial) operation {
	data := make([]byte, t.size)
	return operation{
		fill: func(iteration int) {
			if t.c.Rank() == 0 {
				fill(data, iteration)
			}
		},
		do:    func(ctx context.Context) error { return mpi.Bcast(ctx, t.c, data, 0) },
		check: func(iteration int) error { return check(data, iteration) },
	}
}

// sums returns a reduction with the sum as its operation. Each rank contributes a slice of values,
// and receives the given number of results from index first on. Each result is the sum over the
// ranks below n. If n is 0, results are not checked.
func (t *trial) sums(results, first, n int,
	do func(ctx context.Context, in, out []float64) error,
) operation {
	in, out := make([]float64, t.size/valueBytes), make([]float64, results)
	fillValues(in, t.c.Rank(), 0) // valid numbers, even if the results are not checked
	return operation{
		fill: func(iteration int) { fillValues(in, t.c.Rank(), iteration) },
		do:   func(ctx context.Context) error { return do(ctx, in, out) },
		check: func(iteration int) error {
			if n == 0 {
				return nil
			}
			return checkValues(out, first, n, iteration)
		},
	}
}

func (t *trial) count() int { return t.size / valueBytes }

func reduce(t *trial) operation {
	n := t.c.Size()
	if t.c.Rank() != 0 {
		n = 0 // other ranks get no result
	}
	return t.sums(t.count(), 0, n, func(ctx context.Context, in, out []float64) error {
		return mpi.Reduce(ctx, t.c, in, out, mpi.Sum[float64](), 0)
	})
}

func allreduce(t *trial) operation {
	sum := mpi.Sum[float64]()
	return t.sums(t.count(), 0, t.c.Size(), func(ctx context.Context, in, out []float64) error {
		return mpi.Allreduce(ctx, t.c, in, out, sum)
	})
}

func scan(t *trial) operation {
	return t.sums(t.count(), 0, t.c.Rank()+1, func(ctx context.Context, in, out []float64) error {
		return mpi.Scan(ctx, t.c, in, out, mpi.Sum[float64]())
	})
}

func exscan(t *trial) operation {
	return t.sums(t.count(), 0, t.c.Rank(), func(ctx context.Context, in, out []float64) error {
		return mpi.Exscan(ctx, t.c, in, out, mpi.Sum[float64]())
	})
}

// reduceScatter gives each rank a part of the result. The sizes of the parts differ by at most one
// value.
func reduceScatter(t *trial) operation {
	n := t.c.Size()
	counts, first := make([]int, n), 0
	for i := range counts {
		if counts[i] = t.count() / n; i < t.count()%n {
			counts[i]++
		}
		if i < t.c.Rank() {
			first += counts[i]
		}
	}
	do := func(ctx context.Context, in, out []float64) error {
		return mpi.ReduceScatter(ctx, t.c, in, out, counts, mpi.Sum[float64]())
	}
	return t.sums(counts[t.c.Rank()], first, n, do)
}

// The method parts returns an operation that moves blocks of t.size bytes between ranks. Each rank
// sends the number of blocks in given, and receives the number of blocks in got. givenSeed and
// gotSeed return the seeds of the content of sent and received blocks.
func (t *trial) parts(given, got int, givenSeed, gotSeed func(i int) int,
	do func(ctx context.Context, in, out []byte) error,
) operation {
	in, out := make([]byte, given*t.size), make([]byte, got*t.size)
	part := func(b []byte, i int) []byte { return b[i*t.size : (i+1)*t.size] }
	return operation{
		fill: func(iteration int) {
			for i := range given {
				fill(part(in, i), iteration+givenSeed(i))
			}
		},
		do: func(ctx context.Context) error { return do(ctx, in, out) },
		check: func(iteration int) error {
			for i := range got {
				if err := check(part(out, i), iteration+gotSeed(i)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// seed returns the seed of the block that one rank sends to another rank.
func (t *trial) seed(from, to int) int { return from*t.c.Size() + to }

// The method same returns the element counts for blocks of equal size.
func (t *trial) same() []int {
	counts := make([]int, t.c.Size())
	for i := range counts {
		counts[i] = t.size
	}
	return counts
}

// rootOnly returns count at rank 0, and 0 at all other ranks.
func (t *trial) rootOnly() int {
	if t.c.Rank() == 0 {
		return t.c.Size()
	}
	return 0
}

func (t *trial) gathering(got int, do func(ctx context.Context, in, out []byte) error) operation {
	return t.parts(1, got, func(int) int { return t.seed(t.c.Rank(), 0) },
		func(i int) int { return t.seed(i, 0) }, do)
}

func gather(t *trial) operation {
	return t.gathering(t.rootOnly(), func(ctx context.Context, in, out []byte) error {
		return mpi.Gather(ctx, t.c, in, out, 0)
	})
}

func gatherv(t *trial) operation {
	counts := t.same()
	return t.gathering(t.rootOnly(), func(ctx context.Context, in, out []byte) error {
		return mpi.Gatherv(ctx, t.c, in, out, counts, 0)
	})
}

func allgather(t *trial) operation {
	return t.gathering(t.c.Size(), func(ctx context.Context, in, out []byte) error {
		return mpi.Allgather(ctx, t.c, in, out)
	})
}

func allgatherv(t *trial) operation {
	counts := t.same()
	return t.gathering(t.c.Size(), func(ctx context.Context, in, out []byte) error {
		return mpi.Allgatherv(ctx, t.c, in, out, counts)
	})
}

func (t *trial) scattering(do func(ctx context.Context, in, out []byte) error) operation {
	return t.parts(t.rootOnly(), 1, func(i int) int { return t.seed(0, i) },
		func(int) int { return t.seed(0, t.c.Rank()) }, do)
}

func scatter(t *trial) operation {
	return t.scattering(func(ctx context.Context, in, out []byte) error {
		return mpi.Scatter(ctx, t.c, in, out, 0)
	})
}

func scatterv(t *trial) operation {
	counts := t.same()
	return t.scattering(func(ctx context.Context, in, out []byte) error {
		return mpi.Scatterv(ctx, t.c, in, out, counts, 0)
	})
}

func (t *trial) exchanging(do func(ctx context.Context, in, out []byte) error) operation {
	n, me := t.c.Size(), t.c.Rank()
	return t.parts(n, n, func(i int) int { return t.seed(me, i) },
		func(i int) int { return t.seed(i, me) }, do)
}

func alltoall(t *trial) operation {
	return t.exchanging(func(ctx context.Context, in, out []byte) error {
		return mpi.Alltoall(ctx, t.c, in, out)
	})
}

func alltoallv(t *trial) operation {
	counts := t.same()
	return t.exchanging(func(ctx context.Context, in, out []byte) error {
		return mpi.Alltoallv(ctx, t.c, in, counts, out, counts)
	})
}
