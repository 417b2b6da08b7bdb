package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/mpi"
)

// matrix is a value whose product depends on the order.
type matrix struct {
	A, B, C, D uint32
}

func times(x, y matrix) matrix {
	return matrix{
		x.A*y.A + x.B*y.C, x.A*y.B + x.B*y.D, x.C*y.A + x.D*y.C, x.C*y.B + x.D*y.D,
	}
}

// least is MPI_MINLOC.
type least struct {
	Value float64
	Rank  int32
	Place int32
}

// A program's own operations over structs, one that does not commute and one that does, in all
// reductions, of few and of many values.
func TestOwnOps(t *testing.T) {
	minloc := mpi.NewOp(func(a, b least) least {
		if b.Value < a.Value || b.Value == a.Value && b.Rank < a.Rank {
			return b
		}
		return a
	}, true)
	product := mpi.NewOp(times, false)
	if product.Commutes() || !minloc.Commutes() {
		t.Error("not as it was said")
	}
	for _, size := range []int{1, 3, 4, 6} {
		for _, n := range []int{1, 4000} {
			t.Run(fmt.Sprintf("%d/%d", size, n), func(t *testing.T) {
				run(t, "mem/local", size, func(ctx context.Context, w *mpi.World) error {
					return errors.Join(
						reduceAll(ctx, w, n, product, func(rank, i int) matrix {
							return matrix{uint32(rank + 1), uint32(i), uint32(rank * i), 3}
						}),
						reduceAll(ctx, w, n, minloc, func(rank, i int) least {
							return least{float64((rank*7 + i*3) % 5), int32(rank), int32(i)}
						}))
				})
			})
		}
	}
}

// reduceAll does all reductions of n values of each rank for each rank, and compares with the same
// done one after the other.
func reduceAll[T comparable](ctx context.Context, w *mpi.World, n int, op mpi.Op[T],
	value func(rank, i int) T,
) error {
	size, rank := w.Size(), w.Rank()
	values := func(rank int) []T {
		v := make([]T, n*size)
		for i := range v {
			v[i] = value(rank, i)
		}
		return v
	}
	upTo := func(last int) []T { // of ranks 0 to last
		all := values(0)
		for r := 1; r <= last; r++ {
			next := values(r)
			if err := op.Local(all, next); err != nil {
				panic(err)
			}
			all = next
		}
		return all
	}
	c, in, total := &w.Comm, values(rank), upTo(size-1)
	out, at, part := make([]T, n*size), make([]T, n*size), make([]T, n)
	scan, before := make([]T, n*size), make([]T, n*size)
	var r mpi.Request
	err := errors.Join(
		mpi.Allreduce(ctx, c, in, out, op), mpi.Reduce(ctx, c, in, at, op, size-1),
		mpi.ReduceScatter(ctx, c, in, part, nil, op), mpi.Scan(ctx, c, in, scan, op),
		mpi.Iexscan(&r, c, in, before, op), waited(ctx, &r),
	)
	switch {
	case err != nil:
		return err
	case !slices.Equal(out, total):
		return errors.New("Allreduce")
	case rank == size-1 && !slices.Equal(at, total):
		return errors.New("Reduce")
	case !slices.Equal(part, total[rank*n:(rank+1)*n]):
		return errors.New("ReduceScatter")
	case !slices.Equal(scan, upTo(rank)):
		return errors.New("Scan")
	case rank > 0 && !slices.Equal(before, upTo(rank-1)):
		return errors.New("Exscan")
	}
	return nil
}

// An Op that panics is an error at the rank of the panic, with the value of the panic. No rank
// hangs, and later operations work, including the same Op with other values.
func TestOpPanics(t *testing.T) {
	run(t, "udp", 3, func(ctx context.Context, w *mpi.World) error {
		c := &w.Comm
		op := mpi.NewOp(func(a, b int64) int64 {
			if a < 0 || b < 0 {
				panic("a negative value")
			}
			return a + b
		}, true)
		for round := range 20 {
			value, sum := []int64{int64(w.Rank())}, []int64{0}
			if round%2 == 0 {
				value[0] = -1
			}
			var err error
			if round%4 < 2 {
				err = mpi.Allreduce(ctx, c, value, sum, op)
			} else {
				var r mpi.Request
				err = errors.Join(mpi.Iallreduce(&r, c, value, sum, op), waited(ctx, &r))
			}
			if round%2 == 1 {
				if err != nil || sum[0] != 3 {
					return fmt.Errorf("round %d: the sum is %d: %w", round, sum[0], err)
				}
				continue
			}
			told := []int64{0}
			var panicked *mpi.OpError
			if errors.Is(err, mpi.ErrOp) && errors.As(err, &panicked) {
				if text := err.Error(); text != "mpi: an Op has panicked: a negative value" ||
					!strings.Contains(string(panicked.Stack), "op_test.go") {
					return fmt.Errorf("round %d: %s", round, text)
				}
				told[0] = 1
			} else if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			err = mpi.Allreduce(ctx, c, told, told, mpi.Sum[int64]())
			if err != nil || told[0] == 0 {
				return fmt.Errorf("round %d: nobody had the panic: %w", round, err)
			}
		}
		return nil
	})
}

// What is combined here is combined low with high; what does not fit is an error.
func TestOpLocal(t *testing.T) {
	op := mpi.NewOp(func(low, high int32) int32 { return 10*low + high }, false)
	high := []int32{3, 4}
	if err := op.Local([]int32{1, 2}, high); err != nil || !slices.Equal(high, []int32{13, 24}) {
		t.Errorf("%v, %v", high, err)
	}
	if err := op.Local([]int32{1}, high); !errors.Is(err, mpi.ErrCount) {
		t.Error(err)
	}
	if err := mpi.Replace[int32]().Local(high, high); !errors.Is(err, mpi.ErrConfig) {
		t.Error(err)
	}
	text := mpi.NewOp(func(low, high string) string { return low + high }, false)
	if err := text.Local([]string{""}, []string{""}); !errors.Is(err, mpi.ErrType) {
		t.Error(err)
	}
}

// An Op that ends its goroutine, as FailNow of a test does, leaves no call of its rank waiting for
// ever, whichever goroutine was driving.
func TestOpEndsGoroutine(t *testing.T) {
	for range 5 {
		over := make(chan struct{})
		runWith(t, mpi.Config{}, "udp", 2, func(ctx context.Context, w *mpi.World) error {
			op := mpi.NewOp(func(a, b int64) int64 { runtime.Goexit(); return a + b }, true)
			short, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			if w.Rank() == 1 { // It gives its value, and may have none of the other.
				one := []int64{1}
				go func() {
					<-over
					cancel()
				}()
				_ = mpi.Allreduce(short, &w.Comm, one, one, mpi.Sum[int64]())
				<-over
				return nil
			}
			defer close(over)
			ended := make(chan error, 2)
			begin := func(call func() error) {
				go func() {
					err := fmt.Errorf("%w: here", mpi.ErrOp)
					defer func() { ended <- err }()
					err = call()
				}()
			}
			begin(func() error {
				one := []int64{1}
				return mpi.Allreduce(short, &w.Comm, one, one, op)
			})
			begin(func() error {
				_, err := mpi.Recv(short, &w.Comm, make([]byte, 1), 1, 1)
				return err
			})
			for range cap(ended) {
				if err := <-ended; !errors.Is(err, mpi.ErrOp) {
					return fmt.Errorf("a call: %w", err)
				}
			}
			if err := mpi.Barrier(short, &w.Comm); !errors.Is(err, mpi.ErrOp) {
				return fmt.Errorf("the next one: %w", err)
			}
			if err := w.Finalize(short); !errors.Is(err, mpi.ErrOp) {
				return fmt.Errorf("Finalize: %w", err)
			}
			return nil
		})
	}
}
