package layers

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"gobtl/btl"
	"gobtl/internal/report"
)

// Load is an honest program.
type Load interface {
	Name() string
	Target() Target
	// Work is the amount of work done so far, in units that depend on the Load.
	Work() uint64
	// Err is the reason why the Load has failed, or nil while it runs.
	Err() error
	Close() error
}

// Target is what a malicious peer knows about its target.
type Target struct {
	Load    string // the name of the Load
	Module  []byte // its name
	Address string // for people
	Tag     btl.Tag
	// Leave makes valid messages for the malicious peer's connection with the given number.
	Leave func(life int) [][]byte
}

// Bad is a kind of malicious peer.
type Bad struct {
	Name string
	// Run runs the malicious peer until ctx is cancelled.
	Run func(ctx context.Context, to Target) error
	// Busy only computes until ctx is cancelled, for as much CPU time as the latest Run has used,
	// and returns the share of that time. On a machine with few cores, a part of the throughput is
	// lost beside any process. Busy may be nil.
	Busy func(ctx context.Context) (share float64, err error)
}

// Harmless reports whether a Load has lost little more throughput than beside a process that only
// computes. The argument least of Harmless is the minimum share of its throughput that the Load
// must keep.
func (r *Result) Harmless(least float64) bool {
	floor := 1.0
	if r.Floor > 0 {
		floor = min(r.Floor, 1)
	}
	return r.Err == nil && r.Ratio >= least*floor
}

// Result is the result of a Load beside a Bad.
type Result struct {
	Load, Bad string
	// Alone and Beside are medians over the pairs, in units of work per second, and Ratio is the
	// median of the ratios within the pairs.
	Alone, Beside, Ratio float64
	// Floor is the median of the ratios beside a process that only computes, and Share is the CPU
	// time of the malicious peer by the time that has passed. Both are 0 without Bad.Busy.
	Floor, Share float64
	// GrownBytes is the growth of the heap from the end of the first window with the malicious peer
	// to the end of the last one. PeakBytes is the largest excess over the heap before all windows.
	GrownBytes, PeakBytes int64
	Err                   error // why honest work has failed
}

// Run measures pairs of windows alternately.
func Run(ctx context.Context, l Load, b Bad, pairs int, window time.Duration) Result {
	r := Result{Load: l.Name(), Bad: b.Name}
	var alone, beside, ratios, floors, shares []float64
	before := heapBytes()
	first, last := int64(0), int64(0)
	for i := range pairs {
		a := rate(l, window)
		w, err := rateBeside(ctx, l, window, func(ctx context.Context) error {
			return b.Run(ctx, l.Target())
		})
		if err != nil {
			r.Err = fmt.Errorf("the bad peer itself: %w", err)
		}
		last = heapBytes()
		if r.PeakBytes = max(r.PeakBytes, last-before); i == 0 {
			first = last
		}
		alone, beside, ratios = append(alone, a), append(beside, w), append(ratios, w/math.Max(a, 1))
		if l.Err() != nil || r.Err != nil || ctx.Err() != nil {
			break
		}
		if b.Busy == nil {
			continue
		}
		share := 0.0
		busy, err := rateBeside(ctx, l, window, func(ctx context.Context) error {
			var err error
			share, err = b.Busy(ctx)
			return err
		})
		if err != nil {
			r.Err = fmt.Errorf("the process that computes: %w", err)
		}
		floors, shares = append(floors, busy/math.Max(a, 1)), append(shares, share)
	}
	if len(floors) > 0 {
		r.Floor, r.Share = report.Median(floors), report.Median(shares)
	}
	r.Alone, r.Beside = report.Median(alone), report.Median(beside)
	r.Ratio, r.GrownBytes = report.Median(ratios), last-first
	if err := l.Err(); err != nil {
		r.Err = err
	}
	return r
}

// rate is the work of a window, in units per second.
func rate(l Load, window time.Duration) float64 {
	begin, work := time.Now(), l.Work()
	time.Sleep(window)
	return float64(l.Work()-work) / time.Since(begin).Seconds()
}

// rateBeside is the rate beside something else, which ends with the window.
func rateBeside(ctx context.Context, l Load, window time.Duration,
	fn func(ctx context.Context) error,
) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- fn(ctx) }()
	r := rate(l, window)
	cancel()
	return r, <-ended
}

// heapBytes returns the size of the live heap.
func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Table formats results as a table.
func Table(all []Result) string {
	t := report.Table{
		Heads: [][]string{{
			"load", "bad peer", "alone/s", "beside/s", "ratio", "only computes", "cores", "heap grown",
			"heap peak", "honest",
		}},
		Left: []int{0, 1, 9},
	}
	mib := func(n int64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB" }
	for _, r := range all {
		honest := "all there"
		if r.Err != nil {
			honest = strings.ToValidUTF8(r.Err.Error(), "?")
		}
		t.Rows = append(t.Rows, []string{
			r.Load, r.Bad, strconv.FormatFloat(r.Alone, 'f', 0, 64),
			strconv.FormatFloat(r.Beside, 'f', 0, 64), strconv.FormatFloat(r.Ratio, 'f', 2, 64),
			strconv.FormatFloat(r.Floor, 'f', 2, 64), strconv.FormatFloat(r.Share, 'f', 2, 64),
			mib(r.GrownBytes), mib(r.PeakBytes), honest,
		})
	}
	return t.String()
}

// All runs each Load whose name contains only beside each of bads, for about the given time in
// total, and shows the progress.
func All(ctx context.Context, total time.Duration, only string, bads []Bad) (
	all []Result, err error,
) {
	const pairs = 5
	loads := slices.DeleteFunc(Loads(), func(m Maker) bool { return !strings.Contains(m.Name, only) })
	if len(loads) == 0 {
		return nil, fmt.Errorf("no load has %q in its name", only)
	}
	window := total / time.Duration(len(loads)*len(bads)*3*pairs)
	for _, m := range loads {
		l, err := m.Open()
		if err != nil {
			return all, err
		}
		for _, b := range bads {
			r := Run(ctx, l, b, pairs, window)
			fmt.Fprintf(os.Stderr, "%s beside %s: %.2f, only computes %.2f\n", r.Load, r.Bad, r.Ratio,
				r.Floor)
			all = append(all, r)
			if r.Err != nil { // The next ones shall find honest work.
				_ = l.Close()
				if l, err = m.Open(); err != nil {
					return all, err
				}
			}
		}
		if err := l.Close(); err != nil {
			return all, err
		}
	}
	return all, ctx.Err()
}

// Maker makes a Load.
type Maker struct {
	Name string
	Open func() (Load, error)
}

// Loads are the makers of all Loads.
func Loads() []Maker {
	return []Maker{
		{"call", openCalls},
		{"queue", openQueue},
		{"conn", openConns},
		{"pml", openMessages},
		{"mpi", openJob},
		{"vnic (management)", openEthernet},
		{"vnic (frames)", openFrames},
	}
}
