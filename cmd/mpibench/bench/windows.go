package bench

import (
	"context"
	"fmt"

	"gobtl/mpi"
)

// oneSided is an operation of rank 0 on memory of rank 1, for which rank 1 makes no call. Rank 0
// waits for each operation, or for several operations together. With verification, rank 1 prepares
// its memory before each iteration, and checks it after the iteration.
type oneSided[T any] struct {
	t     *trial
	count int // values in an operation
	many  int // operations in an iteration
	both  bool
	win   *mpi.Window[T]
	data  []T // data of all operations; without verification of one
	// begin begins operation i of an iteration.
	begin func(ctx context.Context, s *oneSided[T], i int) error
	// The field ready fills the memory of both ranks for an iteration, and check verifies the memory
	// after the iteration.
	ready func(s *oneSided[T], iteration int)
	check func(s *oneSided[T], iteration int) error

	iteration int
}

// operations prepares several operations of count values each. The caller must set ready and check.
func operations[T any](t *trial, count, many int,
	begin func(context.Context, *oneSided[T], int) error,
) *oneSided[T] {
	s := &oneSided[T]{t: t, count: count, many: many, begin: begin}
	s.data = make([]T, count*s.places())
	return s
}

// The method places returns how many operations have memory of their own.
func (s *oneSided[T]) places() int {
	if s.t.Verify {
		return s.many
	}
	return 1
}

// at returns the index of the first value of operation i, and part returns the slice of its values.
func (s *oneSided[T]) at(i int) int   { return i % s.places() * s.count }
func (s *oneSided[T]) part(i int) []T { return s.data[s.at(i):][:s.count] }

// The method other returns the rank on whose memory this rank operates.
func (s *oneSided[T]) other() int { return 1 - s.t.c.Rank() }

// run runs n iterations.
func (s *oneSided[T]) run(ctx context.Context, n int) (err error) {
	if s.win == nil {
		if s.win, err = mpi.NewWindow(ctx, s.t.c, make([]T, s.count*s.places())); err != nil {
			return err
		}
		s.t.free = s.win.Free
	}
	if s.t.Verify || s.both {
		for range n {
			if err := s.together(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if s.t.c.Rank() != 0 {
		return nil // Rank 1 only provides its memory.
	}
	for range n {
		if err := s.iterate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// iterate runs and times one iteration, which ends when the operations are complete at the other
// rank. If both ranks operate, a fence ends the iteration.
func (s *oneSided[T]) iterate(ctx context.Context) error {
	begin := s.t.now()
	for i := range s.many {
		if err := s.begin(ctx, s, i); err != nil {
			return err
		}
	}
	end := func(ctx context.Context) error { return s.win.Flush(ctx, s.other()) }
	if s.both {
		end = s.win.Fence
	}
	if err := end(ctx); err != nil {
		return err
	}
	if s.t.c.Rank() == 0 {
		s.t.record(s.t.hist, s.t.now()-begin)
	}
	return nil
}

// together runs one iteration in which both ranks take part.
func (s *oneSided[T]) together(ctx context.Context) error {
	s.iteration++
	if s.t.Verify {
		s.ready(s, s.iteration)
	}
	if err := s.win.Fence(ctx); err != nil {
		return err
	}
	if s.both || s.t.c.Rank() == 0 {
		if err := s.iterate(ctx); err != nil {
			return err
		}
	}
	if !s.t.Verify {
		return nil
	}
	if err := s.win.Fence(ctx); err != nil {
		return err
	}
	s.t.look(s.check(s, s.iteration))
	return s.win.Fence(ctx) // Both ranks have checked the memory.
}

func beginPut(ctx context.Context, s *oneSided[byte], i int) error {
	return s.win.Put(ctx, s.part(i), s.other(), s.at(i))
}

func beginGet(ctx context.Context, s *oneSided[byte], i int) error {
	return s.win.Get(ctx, s.part(i), s.other(), s.at(i))
}

// puts makes rank 0, or both ranks, put many messages in each iteration.
func (t *trial) puts(many int, both bool) func(context.Context, int) error {
	s := operations(t, t.size, many, beginPut)
	s.both = both
	s.ready = func(s *oneSided[byte], iteration int) { fill(s.data, 2*iteration+t.c.Rank()) }
	s.check = func(s *oneSided[byte], iteration int) error {
		if t.c.Rank() == 0 && !both {
			return nil
		}
		return check(s.win.Mem(), 2*iteration+s.other())
	}
	return s.run
}

// gets makes rank 0 get many messages in each iteration.
func (t *trial) gets(many int) func(context.Context, int) error {
	s := operations(t, t.size, many, beginGet)
	s.ready = func(s *oneSided[byte], iteration int) { fill(s.win.Mem(), 2*iteration+t.c.Rank()) }
	s.check = func(s *oneSided[byte], iteration int) error {
		if t.c.Rank() != 0 {
			return nil
		}
		return check(s.data, 2*iteration+s.other())
	}
	return s.run
}

func putLatency(t *trial) func(context.Context, int) error { return t.puts(1, false) }
func getLatency(t *trial) func(context.Context, int) error { return t.gets(1) }
func putFlow(t *trial) func(context.Context, int) error    { return t.puts(t.window(), false) }
func getFlow(t *trial) func(context.Context, int) error    { return t.gets(t.window()) }
func putBoth(t *trial) func(context.Context, int) error    { return t.puts(t.window(), true) }

// accumulateLatency makes rank 0 add its values to the values of rank 1. The memory of rank 1
// begins with the reduction input of rank 0, and rank 0 adds the reduction input of rank 1.
func accumulateLatency(t *trial) func(context.Context, int) error {
	sum := mpi.Sum[float64]()
	begin := func(ctx context.Context, s *oneSided[float64], i int) error {
		return s.win.Accumulate(ctx, s.part(i), s.other(), s.at(i), sum)
	}
	s := operations(t, t.count(), 1, begin)
	s.ready = func(s *oneSided[float64], iteration int) {
		if fillValues(s.data, 1, iteration); t.c.Rank() == 1 {
			fillValues(s.win.Mem(), 0, iteration)
		}
	}
	s.check = func(s *oneSided[float64], iteration int) error {
		if t.c.Rank() == 0 {
			return nil
		}
		return checkValues(s.win.Mem(), 0, 2, iteration)
	}
	return s.run
}

// counter makes rank 0 increment a number in the memory of rank 1. The operation increments the
// number, and returns the previous value.
func counter(t *trial, next func(context.Context, *mpi.Window[int64], int64) (int64, error),
) func(context.Context, int) error {
	value := int64(0)
	begin := func(ctx context.Context, s *oneSided[int64], _ int) error {
		old, err := next(ctx, s.win, value)
		if err == nil && t.Verify && old != value {
			t.look(fmt.Errorf("the counter was %d, want %d", old, value))
		}
		value++
		return err
	}
	s := operations(t, 1, 1, begin)
	s.ready = func(*oneSided[int64], int) {}
	s.check = func(s *oneSided[int64], iteration int) error {
		if have := s.win.Mem()[0]; t.c.Rank() == 1 && have != int64(iteration) {
			return fmt.Errorf("the counter is %d, want %d", have, iteration)
		}
		return nil
	}
	return s.run
}

func fetchLatency(t *trial) func(context.Context, int) error {
	sum := mpi.Sum[int64]()
	return counter(t, func(ctx context.Context, w *mpi.Window[int64], _ int64) (int64, error) {
		return w.FetchAndOp(ctx, 1, 1, 0, sum)
	})
}

func swapLatency(t *trial) func(context.Context, int) error {
	return counter(t, func(ctx context.Context, w *mpi.Window[int64], value int64) (int64, error) {
		return w.CompareAndSwap(ctx, value, value+1, 1, 0)
	})
}
