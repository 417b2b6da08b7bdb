package bench

import (
	"context"
	"fmt"

	"gobtl/mpi"
)

// oneSided is an operation of rank 0 on the memory of rank 1, which makes no call for it. Rank 0
// waits for each operation, or starts several before it waits for all of them. With verification
// both ranks synchronize before and after each iteration, and rank 1 prepares and checks its
// memory.
type oneSided[T any] struct {
	t     *trial
	count int // values of an operation
	many  int // operations of an iteration
	both  bool
	win   *mpi.Window[T]
	data  []T // of all operations, or of one that is used by all where nobody looks
	// begin begins operation i of an iteration.
	begin func(ctx context.Context, s *oneSided[T], i int) error
	// ready fills the memory of both ranks for an iteration, check looks at it.
	ready func(s *oneSided[T], iteration int)
	check func(s *oneSided[T], iteration int) error

	iteration int
}

// operations prepares many operations of count values; ready and check must be set.
func operations[T any](t *trial, count, many int,
	begin func(context.Context, *oneSided[T], int) error,
) *oneSided[T] {
	s := &oneSided[T]{t: t, count: count, many: many, begin: begin}
	s.data = make([]T, count*s.places())
	return s
}

// places is the number of operations that have memory of their own.
func (s *oneSided[T]) places() int {
	if s.t.Verify {
		return s.many
	}
	return 1
}

// at is the first value of an operation, at both ranks; part is its data.
func (s *oneSided[T]) at(i int) int   { return i % s.places() * s.count }
func (s *oneSided[T]) part(i int) []T { return s.data[s.at(i):][:s.count] }

// other is the rank whose memory is used.
func (s *oneSided[T]) other() int { return 1 - s.t.c.Rank() }

// run does n iterations.
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
		return nil // Its memory is all that is needed.
	}
	for range n {
		if err := s.iterate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// iterate does and times one iteration, until it is over at the other rank. Of both ranks the fence
// says that.
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

// together does one iteration for which both ranks meet.
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
	return s.win.Fence(ctx) // Nobody readies what the other one looks at.
}

func beginPut(ctx context.Context, s *oneSided[byte], i int) error {
	return s.win.Put(ctx, s.part(i), s.other(), s.at(i))
}

func beginGet(ctx context.Context, s *oneSided[byte], i int) error {
	return s.win.Get(ctx, s.part(i), s.other(), s.at(i))
}

// puts has rank 0, or both ranks, put so many messages.
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

// gets has rank 0 get so many messages.
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

// accumulateLatency has rank 0 add to the values of rank 1: what it has there, as if it were of
// rank 0, and its own, as if it were of rank 1.
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

// counter makes rank 0 increment a number in the memory of rank 1, by an operation that returns the
// previous value.
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
