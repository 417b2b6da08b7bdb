package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"gobtl/internal/report"
	"gobtl/mpi"
)

// Schema is the name of the schema of the JSON lines.
const Schema = "gobtl-mpibench/1"

// ErrVerify means that received data differ from the sent data.
var ErrVerify = errors.New("data differs")

// Result is the result of a test for one message size and one number of ranks. A Result is written
// as a line of JSON. Min is the best value for times, and the value of the slowest window for
// rates.
type Result struct {
	Schema string  `json:"schema"`
	Test   string  `json:"test"`
	Size   int     `json:"size"` // bytes
	Ranks  int     `json:"ranks"`
	Unit   string  `json:"unit"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Min    float64 `json:"min"`
}

// Options select the measurements. All ranks must have the same Options.
type Options struct {
	Tests    []string      // names of tests, from Tests
	Sizes    []int         // bytes
	Ranks    []int         // numbers of ranks that take part, from rank 0 on
	Duration time.Duration // approximate time for each figure
	Window   int           // messages in flight, in tests with windows
	Threads  int           // goroutines that send, in latency_mt
	Verify   bool
	// Show is called at rank 0 for each Result.
	Show func(Result) error
}

// RanksMin is the smallest number of ranks with which a test can run.
const RanksMin = 2

// trial is one figure that is being measured.
type trial struct {
	Options
	c     *mpi.Comm
	size  int
	hist  *hdrhistogram.Histogram // time of each iteration in ns, at ranks that measure
	clock time.Time
	mu    sync.Mutex
	wrong error                       // the first wrong byte or value that was found
	free  func(context.Context) error // releases the resources of the test; nil: none
}

// histMaxNs is the largest time that the histogram can hold, in nanoseconds.
const histMaxNs = 600e9

func newHist() *hdrhistogram.Histogram { return hdrhistogram.New(1, histMaxNs, 3) }

// The method now returns the nanoseconds since the beginning of the trial.
func (t *trial) now() int64 { return int64(time.Since(t.clock)) }

// record adds a sample in nanoseconds to a histogram. Negative samples are ignored.
func (t *trial) record(h *hdrhistogram.Histogram, took int64) {
	if took >= 0 {
		_ = h.RecordValue(min(took, histMaxNs)) // The value is in range.
	}
}

// look stores the error of a check of received data. Any goroutine may call look.
func (t *trial) look(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrong == nil {
		t.wrong = err
	}
}

// window returns the number of messages in flight, which is lower for large messages to save
// memory.
func (t *trial) window() int {
	const bytesMax = 64 << 20
	return min(t.Window, max(2, bytesMax/max(1, t.size)))
}

// Run runs the selected tests. Every rank of the world must call Run with the same options. Run
// returns an error for an unknown test or an impossible number of ranks.
func Run(ctx context.Context, w *mpi.World, o Options) error {
	list := make([]*test, len(o.Tests))
	for i, name := range o.Tests {
		if list[i] = find(name); list[i] == nil {
			return fmt.Errorf("no test %q", name)
		}
	}
	for _, n := range o.Ranks {
		if n < RanksMin || n > w.Size() {
			return fmt.Errorf("%d ranks of %d: want %d or more", n, w.Size(), RanksMin)
		}
	}
	comms := map[int]*mpi.Comm{w.Size(): &w.Comm}
	for _, x := range list {
		for _, n := range x.rankCounts(o.Ranks) {
			if _, ok := comms[n]; ok {
				continue
			}
			c, err := first(ctx, &w.Comm, n)
			if err != nil {
				return err
			}
			comms[n] = c
		}
	}
	for _, x := range list {
		for _, n := range x.rankCounts(o.Ranks) {
			for _, size := range x.sizeList(o.Sizes) {
				if err := one(ctx, w, comms[n], x, size, o); err != nil {
					return fmt.Errorf("%s, %d bytes, %d ranks: %w", x.name, size, n, err)
				}
			}
		}
	}
	return nil
}

// The function first returns the communicator of the first n ranks, or nil at the other ranks.
func first(ctx context.Context, c *mpi.Comm, n int) (*mpi.Comm, error) {
	colour := 0
	if c.Rank() >= n {
		colour = mpi.NoColour
	}
	return c.Split(ctx, colour, c.Rank())
}

// The function one measures one test, message size and number of ranks, with the ranks of the
// communicator c. At ranks that do not take part, c is nil, and the function one waits for the
// other ranks. The function one returns at all ranks together, with an error if a rank has received
// wrong data.
func one(ctx context.Context, w *mpi.World, c *mpi.Comm, x *test, size int, o Options) error {
	t := &trial{Options: o, c: c, size: size, hist: newHist(), clock: time.Now()}
	if c != nil {
		run := x.prepare(t)
		if err := t.calibrated(ctx, run); err != nil {
			return err
		}
		if t.free != nil {
			if err := t.free(ctx); err != nil {
				return err
			}
		}
		if err := x.agree(ctx, t); err != nil {
			return err
		}
	}
	bad := []int64{0}
	if t.wrong != nil {
		bad[0] = 1
	}
	if err := mpi.Allreduce(ctx, &w.Comm, bad, bad, mpi.Sum[int64]()); err != nil {
		return err
	}
	switch {
	case t.wrong != nil:
		return fmt.Errorf("%w: rank %d: %w", ErrVerify, w.Rank(), t.wrong)
	case bad[0] > 0:
		return fmt.Errorf("%w: at %d other ranks", ErrVerify, bad[0])
	}
	return nil
}

// warmUp is the number of iterations before the timed iterations.
const warmUp = 16

// calibrated runs as many iterations as fit into the requested time. The number of iterations is
// determined by shorter runs. Rank 0 decides on the number of iterations, and sends the number to
// the other ranks.
func (t *trial) calibrated(ctx context.Context, run func(context.Context, int) error) error {
	plan := []int64{warmUp, 0} // iterations, and 1 if the run is measured
	for {
		t.hist.Reset()
		begin := t.now()
		if err := run(ctx, int(plan[0])); err != nil {
			return err
		}
		if plan[1] == 1 {
			return nil
		}
		if took, wanted := t.now()-begin, int64(t.Duration); took*10 < wanted {
			plan[0] *= 4
		} else {
			plan = []int64{fitting(plan[0], took, wanted), 1}
		}
		if err := mpi.Bcast(ctx, t.c, plan, 0); err != nil {
			return err
		}
	}
}

// fitting returns the number of iterations for the time "wanted", at least 1. The time "took" is
// the time of n iterations, and at least a tenth of "wanted".
func fitting(n, took, wanted int64) int64 {
	return max(1, int64(float64(n)*(float64(wanted)/float64(max(1, took)))))
}

// agree combines the measured values of all ranks at rank 0. The result of agree is the time of the
// slowest rank, or the sum of the rates of all ranks.
func (x *test) agree(ctx context.Context, t *trial) error {
	mine, op := make([]float64, 3), mpi.Max[float64]()
	at := func(percentile float64) float64 {
		return max(1, float64(t.hist.ValueAtPercentile(percentile))) // ns
	}
	switch {
	case t.hist.TotalCount() == 0: // this rank does not measure
	case x.amount == nil:
		mine = []float64{at(50), at(99), max(1, float64(t.hist.Min()))}
		for i := range mine {
			mine[i] /= 1e3 * x.share
		}
	default:
		mine = []float64{at(50), at(1), max(1, float64(t.hist.Max()))}
		for i, ns := range mine {
			mine[i] = x.amount(t) / ns * 1e9
		}
	}
	if x.amount != nil {
		op = mpi.Sum[float64]()
	}
	all := make([]float64, len(mine))
	if err := mpi.Reduce(ctx, t.c, mine, all, op, 0); err != nil || t.c.Rank() != 0 {
		return err
	}
	return t.Show(Result{
		Schema: Schema, Test: x.name, Size: t.size, Ranks: t.c.Size(), Unit: x.unit,
		Median: report.Significant(all[0]), P99: report.Significant(all[1]),
		Min: report.Significant(all[2]),
	})
}

// rankCounts returns the numbers of ranks with which a test runs.
func (x *test) rankCounts(ranks []int) (counts []int) {
	for _, n := range ranks {
		switch {
		case x.two:
			n = 2
		case x.pairs:
			n &^= 1
		}
		if !slices.Contains(counts, n) {
			counts = append(counts, n)
		}
	}
	return counts
}

// sizeList returns the message sizes with which a test runs. Each size is a multiple of the value
// size, and occurs once.
func (x *test) sizeList(sizes []int) (list []int) {
	if x.unsized || x.fixed > 0 {
		return []int{x.fixed}
	}
	for _, n := range sizes {
		if x.values {
			n = max(1, (n+valueBytes-1)/valueBytes) * valueBytes
		}
		if !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}
