package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "gobtl/fabric/mem"
	"gobtl/mpi"
)

// limit is there for hangs.
const limit = time.Minute

// room is a job of goroutines: what its ranks have given, by key.
type room struct {
	mu    sync.Mutex
	size  int
	given map[string][][]byte
	here  map[string]int
	all   map[string]chan struct{}
}

// seat is one rank's mpi.Job.
type seat struct {
	*room
	rank   int
	fences *int
}

func (s seat) Rank() int      { return s.rank }
func (s seat) Size() int      { return s.size }
func (s seat) NodeOf(int) int { return 0 }
func (s seat) Nodes() int     { return 1 }

func (s seat) Exchange(ctx context.Context, key string, value []byte) ([][]byte, error) {
	s.mu.Lock()
	if s.all[key] == nil {
		s.given[key], s.all[key] = make([][]byte, s.size), make(chan struct{})
	}
	given, all := s.given[key], s.all[key]
	given[s.rank] = value
	if s.here[key]++; s.here[key] == s.size {
		close(all)
	}
	s.mu.Unlock()
	select {
	case <-all:
		return given, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s seat) Fence(ctx context.Context) error {
	*s.fences++
	_, err := s.Exchange(ctx, fmt.Sprint("fence ", *s.fences), nil)
	return err
}

func (s seat) Finalize(context.Context) error { return nil }

// job runs so many ranks, and returns how each has ended.
func job(t *testing.T, size int, body func(context.Context, *mpi.World) error) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	all := &room{
		size: size, given: map[string][][]byte{}, here: map[string]int{},
		all: map[string]chan struct{}{},
	}
	errs := make([]error, size)
	var group sync.WaitGroup
	for rank := range size {
		group.Go(func() {
			var cfg mpi.Config
			cfg.Fabric.Provider = "mem/local"
			w, err := mpi.Open(ctx, seat{all, rank, new(int)}, cfg)
			if err == nil {
				err = errors.Join(body(ctx, w), w.Finalize(ctx))
			}
			if errs[rank] = err; err != nil && !errors.Is(err, ErrVerify) {
				cancel()
			}
		})
	}
	group.Wait()
	return errs
}

// Every test gives a figure for every number of ranks and every size that it has, with every byte
// right.
func TestAll(t *testing.T) {
	var got []string
	errs := job(t, 4, func(ctx context.Context, w *mpi.World) error {
		return Run(ctx, w, Options{
			Tests: Tests(), Sizes: []int{0, 1, 3, 8, 5000, 20_000}, Ranks: []int{2, 3, 4},
			Duration: 10 * time.Microsecond, Window: 5, Threads: 3, Verify: true,
			Show: func(r Result) error {
				if r.Schema != Schema || r.Median < r.Min && r.Unit == unitTime || r.P99 < r.Median {
					return fmt.Errorf("%+v", r)
				}
				if r.Median <= 0 && (r.Size > 0 || r.Unit != unitBytes) {
					return fmt.Errorf("not positive: %+v", r)
				}
				got = append(got, fmt.Sprintf("%s %s %d %d", r.Test, r.Unit, r.Ranks, r.Size))
				return nil
			},
		})
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	var want []string
	add := func(test, unit string, ranks, sizes []int) {
		for _, n := range ranks {
			for _, size := range sizes {
				want = append(want, fmt.Sprintf("%s %s %d %d", test, unit, n, size))
			}
		}
	}
	bytes, values := []int{0, 1, 3, 8, 5000, 20_000}, []int{8, 5000, 20_000}
	add("latency", "us", []int{2}, bytes)
	add("latency_mt", "us", []int{2}, bytes)
	add("vector_latency", "us", []int{2}, bytes)
	add("bw", "MB/s", []int{2}, bytes)
	add("bibw", "MB/s", []int{2}, bytes)
	add("mbw_mr", "messages/s", []int{2, 4}, bytes)
	add("put_latency", "us", []int{2}, bytes)
	add("get_latency", "us", []int{2}, bytes)
	add("acc_latency", "us", []int{2}, values)
	add("fop_latency", "us", []int{2}, []int{8})
	add("cas_latency", "us", []int{2}, []int{8})
	add("put_bw", "MB/s", []int{2}, bytes)
	add("get_bw", "MB/s", []int{2}, bytes)
	add("put_bibw", "MB/s", []int{2}, bytes)
	add("barrier", "us", []int{2, 3, 4}, []int{0})
	add("bcast", "us", []int{2, 3, 4}, bytes)
	for _, test := range []string{"reduce", "allreduce", "reduce_scatter", "scan", "exscan"} {
		add(test, "us", []int{2, 3, 4}, values)
	}
	for _, test := range []string{
		"gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall", "alltoallv",
	} {
		add(test, "us", []int{2, 3, 4}, bytes)
	}
	if !slices.Equal(got, want) {
		t.Errorf("figures:\n%q\nwant\n%q", got, want)
	}
}

// Wrong data at one rank ends the job at all of them, and the one says what was wrong.
func TestVerify(t *testing.T) {
	sound := find("bcast")
	spoilt := *sound
	spoilt.prepare = func(t *trial) func(context.Context, int) error {
		run := sound.prepare(t)
		return func(ctx context.Context, n int) error {
			if t.c.Rank() == 1 {
				t.look(check([]byte{1}, 0))
			}
			return run(ctx, n)
		}
	}
	errs := job(t, 3, func(ctx context.Context, w *mpi.World) error {
		o := Options{Duration: 1, Show: func(Result) error { return nil }}
		return one(ctx, w, &w.Comm, &spoilt, 8, o)
	})
	for rank, err := range errs {
		if !errors.Is(err, ErrVerify) || strings.Contains(err.Error(), "byte 0") != (rank == 1) {
			t.Errorf("rank %d ends with %v", rank, err)
		}
	}
}

// A byte, or a value, that is wrong is noticed wherever it is.
func TestCheck(t *testing.T) {
	b, v := make([]byte, 700), make([]float64, 30)
	for i := range b {
		fill(b, 5)
		if b[i]++; check(b, 5) == nil {
			t.Errorf("byte %d is wrong, and not noticed", i)
		}
	}
	if fill(b, 5); check(b, 5) != nil || check(b, 6) == nil {
		t.Error("what was filled is not what is looked for, or another filling is")
	}
	for i := range v {
		fillValues(v, 0, 3)
		if v[i]++; checkValues(v, 0, 1, 3) == nil {
			t.Errorf("value %d is wrong, and not noticed", i)
		}
	}
	fillValues(v, 0, 3)
	if checkValues(v, 0, 1, 3) != nil || checkValues(v, 0, 2, 3) == nil {
		t.Error("values of one rank are not what is looked for, or are taken for those of two")
	}
	if checkValues(v[10:], 10, 1, 3) != nil || checkValues(v[10:], 0, 1, 3) == nil {
		t.Error("values of the middle are not what is looked for there, or are at the beginning")
	}
}

// The number of iterations for a time is right also if the products of the numbers exceed 64 bits.
func TestFitting(t *testing.T) {
	const hour = int64(time.Hour)
	for _, tc := range []struct{ n, took, wanted, want int64 }{
		{16, 1000, 10_000, 160},
		{16, 1000, 1, 1},
		{1, 0, 0, 1},
		{64, hour, hour, 64},
		{2_400_000_000, hour / 10, hour, 24_000_000_000},
		{24_000_000_000, hour, hour, 24_000_000_000},
	} {
		if got := fitting(tc.n, tc.took, tc.wanted); got != tc.want {
			t.Errorf("%d took %d ns: %d in %d ns, want %d", tc.n, tc.took, got, tc.wanted, tc.want)
		}
	}
}

// What cannot be measured is said before anything is.
func TestOptions(t *testing.T) {
	errs := job(t, 2, func(ctx context.Context, w *mpi.World) error {
		for _, o := range []Options{
			{Tests: []string{"nothing"}, Ranks: []int{2}},
			{Tests: []string{"latency"}, Ranks: []int{1}},
			{Tests: []string{"latency"}, Ranks: []int{3}},
		} {
			if Run(ctx, w, o) == nil {
				return fmt.Errorf("%+v is measured", o)
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
