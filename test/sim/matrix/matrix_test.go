package matrix

import (
	"cmp"
	"flag"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"gobtl/internal/testenv"
	"gobtl/reliability"
)

// floor is a cell and what the adaptive profile must reach there.
type floor struct {
	cell     Cell
	share    float64 // goodput of one stream, at least, of the cell's ceiling
	jain     float64 // fairness of two streams, at least
	resent   float64 // packets sent again, at most, beyond those that the path loses
	spurious float64 // packets that arrive twice, at most, of those sent
	p999     float64 // latency of 8-byte messages, at most, in round trips; 0.5 is the least
}

// floors is the matrix in small. To hold the profile to more, add a line; the figures are those of
// the acceptance where it names one, else what is reached, less some room for chance.
// Shares are of what the line takes less the headers: what these cost is not in them.
var floors = []floor{
	//    RTT                  rate  queue  loss reorder  share jain resent spurious p999
	{Cell{50 * time.Microsecond, 1e9, 1, 0, 0}, 0.95, 0.95, 0.02, 0, 0.6},
	{Cell{50 * time.Microsecond, 1e9, 1, 0.001, 0}, 0.95, 0.95, 0.02, 0.01, 25},
	{Cell{50 * time.Microsecond, 1e9, 1, 0.01, 0}, 0.90, 0.95, 0.02, 0.01, 25},
	{Cell{50 * time.Microsecond, 1e9, 1, 0.05, 0}, 0.90, 0.90, 0.06, 0.01, 50},
	{Cell{50 * time.Microsecond, 10e9, 4, 0.01, 0}, 0.90, 0.90, 0.02, 0.01, 25},
	{Cell{50 * time.Microsecond, 1e9, 4, 0, 0.2}, 0.90, 0.95, 0.02, 0.01, 2},
	{Cell{time.Millisecond, 100e6, 1, 0, 0}, 0.95, 0.95, 0.02, 0.01, 0.6},
	{Cell{time.Millisecond, 100e6, 4, 0.01, 0}, 0.90, 0.95, 0.02, 0.01, 4},
	{Cell{time.Millisecond, 1e9, 0.25, 0, 0}, 0.85, 0.90, 0.02, 0.01, 0.6},
	{Cell{time.Millisecond, 1e9, 1, 0.01, 0.05}, 0.90, 0.90, 0.02, 0.01, 4},
	{Cell{time.Millisecond, 1e9, 1, 0.05, 0.2}, 0.85, 0.90, 0.02, 0.01, 20},
	{Cell{time.Millisecond, 10e9, 1, 0.01, 0}, 0.85, 0.80, 0.02, 0.01, 4},
	{Cell{20 * time.Millisecond, 100e6, 1, 0.001, 0}, 0.90, 0.80, 0.02, 0.01, 4},
	{Cell{20 * time.Millisecond, 1e9, 1, 0.01, 0.2}, 0.40, 0.80, 0.02, 0.01, 4},
}

// sizes are those of the messages of streams: one packet, some with a short last one, and many.
// What a controller does hangs on such details more than it should.
var sizes = []int{1 << 10, 8 << 10, streamBytes, 64 << 10, 1 << 20}

var allSizes = flag.Bool("matrix.all", false, "measure each row with messages of all sizes")

// sizesOf are the sizes with which a row of a table is measured: 16 KiB, and one other size, in
// turn. The flag matrix.all has all sizes measured.
func sizesOf(row int) []int {
	switch {
	case testenv.Race, testing.Short():
		return []int{streamBytes}
	case *allSizes:
		return sizes
	}
	others := slices.DeleteFunc(slices.Clone(sizes), func(n int) bool { return n == streamBytes })
	return []int{streamBytes, others[row%len(others)]}
}

// ofSizes are the cells where messages of other sizes than 16 KiB reach less, and what they do.
var ofSizes = []floor{
	{Cell{50 * time.Microsecond, 1e9, 1, 0.01, 0}, 0.90, 0.95, 0.025, 0.01, 25},
	{Cell{50 * time.Microsecond, 10e9, 4, 0.01, 0}, 0.90, 0.80, 0.02, 0.01, 25},
	// Two streams have few dozens of losses in so short a time, and these decide who has how much.
	{Cell{time.Millisecond, 1e9, 0.25, 0, 0}, 0.85, 0.75, 0.02, 0.01, 0.6},
	{Cell{time.Millisecond, 1e9, 1, 0.05, 0.2}, 0.82, 0.90, 0.02, 0.01, 20},
	{Cell{time.Millisecond, 10e9, 1, 0.01, 0}, 0.82, 0.80, 0.02, 0.01, 4},
	{Cell{20 * time.Millisecond, 1e9, 1, 0.01, 0.2}, 0.25, 0.80, 0.02, 0.01, 4},
}

// floorsOf are the floors for messages of a size.
func floorsOf(size int) []floor {
	var all []floor
	for i, f := range floors {
		for j := range ofSizes {
			if size != streamBytes && ofSizes[j].cell == f.cell {
				f = ofSizes[j]
			}
		}
		brief := testenv.Race || testing.Short()
		if slices.Contains(sizesOf(i), size) && (!brief || i == 2 || i == 9) {
			all = append(all, f)
		}
	}
	return all
}

// TestFloors measures the cells of floors: the adaptive profile reaches what it must. With messages
// of 16 KiB it is nowhere behind the other one.
func TestFloors(t *testing.T) {
	for _, size := range sizes {
		some := floorsOf(size)
		if len(some) == 0 {
			continue
		}
		cells := make([]Cell, len(some))
		for i := range some {
			cells[i] = some[i].cell
		}
		profiles := []string{"adaptive"}
		if size == streamBytes {
			profiles = append(profiles, "usnic")
		}
		effort := Quick
		effort.MessageBytes = size
		results, err := Run(cells, profiles, effort, runtime.GOMAXPROCS(0), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("messages of %d bytes\n%s", size, Table(results))
		for i := range some {
			got := find(results, cells[i], "adaptive")
			some[i].judge(t, ofSeeds(t, got, effort))
			compare(t, got, find(results, cells[i], "usnic"))
		}
	}
}

// The method meets reports whether a result is as good as it must be.
func (f *floor) meets(got *Result) bool {
	return got.Share >= f.share && got.Jain >= f.jain && got.Resent <= got.Loss+f.resent &&
		got.Spurious <= f.spurious && float64(got.P999) <= f.p999*float64(got.RTT)
}

// ofSeeds measures a cell with two more seeds, and returns the medians of all three. A round trip
// that is a nanosecond longer makes another seed (Cell.seed).
func ofSeeds(t *testing.T, first *Result, effort Effort) *Result {
	t.Helper()
	all := []Result{*first}
	for n := range 2 {
		cell := first.Cell
		cell.RTT += time.Duration(1 + n)
		more, err := Run([]Cell{cell}, []string{first.Profile}, effort, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, more...)
	}
	middle := *first
	median := func(of func(*Result) *float64) {
		slices.SortFunc(all, func(a, b Result) int { return cmp.Compare(*of(&a), *of(&b)) })
		*of(&middle) = *of(&all[len(all)/2])
	}
	median(func(r *Result) *float64 { return &r.Share })
	median(func(r *Result) *float64 { return &r.Jain })
	median(func(r *Result) *float64 { return &r.Resent })
	median(func(r *Result) *float64 { return &r.Spurious })
	slices.SortFunc(all, func(a, b Result) int { return cmp.Compare(a.P999, b.P999) })
	middle.P999 = all[len(all)/2].P999
	return &middle
}

func (f *floor) judge(t *testing.T, got *Result) {
	t.Helper()
	if !f.meets(got) {
		t.Errorf("%s\nwant %.1f%%, resent %.2f%%, spurious %.2f%%; Jain %.3f; %.1f round trips",
			got.Text(), 100*f.share, 100*(got.Loss+f.resent), 100*f.spurious, f.jain, f.p999)
	}
}

// The function compare checks that a result of the profile adaptive is not behind that of the
// profile usnic with the same seed. The argument usnic is nil for sizes that were not measured with
// this profile.
func compare(t *testing.T, got, usnic *Result) {
	t.Helper()
	if usnic == nil {
		return
	}
	if got.Share < 0.97*usnic.Share || float64(got.P999) > 1.01*float64(usnic.P999) ||
		got.Spurious > usnic.Spurious {
		t.Errorf("behind the other profile:\n%s\n%s", got.Text(), usnic.Text())
	}
}

// TestSameSeed measures a cell twice, with and without used memory.
func TestSameSeed(t *testing.T) {
	c := Cell{time.Millisecond, 100e6, 1, 0.01, 0.05}
	var first Result
	for n := range 2 {
		results, err := Run([]Cell{c, c}, []string{"usnic"}, Quick, n+1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first = results[0]
		}
		for _, r := range results {
			if !reflect.DeepEqual(r, first) {
				t.Errorf("a second run gave something else:\n%s\n%s", first.Text(), r.Text())
			}
		}
	}
	other := c
	other.Loss = 0.0101
	r, err := Measure(other, "usnic", Quick, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Goodput == first.Goodput {
		t.Error("another cell gave the same")
	}
}

func TestCellsAreDifferent(t *testing.T) {
	names, seeds := map[string]bool{}, map[uint64]bool{}
	for _, c := range Cells() {
		names[c.String()], seeds[c.seed()] = true, true
	}
	if want := 3 * 3 * 3 * 4 * 3; len(names) != want || len(seeds) != want {
		t.Errorf("%d names and %d seeds of cells, want %d", len(names), len(seeds), want)
	}
}

func TestCeiling(t *testing.T) {
	for _, tc := range []struct {
		cell Cell
		want float64 // Mbit/s of datagrams
	}{
		{clean(time.Millisecond, 1e9, 1), 1000},
		{clean(20*time.Millisecond, 10e9, 1), 4096 * 1472 * 8 / 20e3}, // a window each round trip
	} {
		got := tc.cell.ceiling(1, streamBytes) * 8 / 1e6 / efficiency(streamBytes)
		if got < tc.want-1 || got > tc.want+1 {
			t.Errorf("%s: ceiling %.1f Mbit/s, want %.1f", tc.cell, got, tc.want)
		}
	}
	if c := clean(20*time.Millisecond, 10e9, 1); c.ceiling(2, 1<<10) != 2*c.ceiling(1, 1<<10) {
		t.Error("two streams have two windows")
	} else if got := c.ceiling(1, 1<<10) * c.RTT.Seconds() / reliability.WindowDefault; got != 1<<10 {
		t.Errorf("a packet of a window has %v bytes of a message of 1 KiB", got)
	}
}

func TestJain(t *testing.T) {
	for _, tc := range []struct {
		rates []float64
		want  float64
	}{
		{[]float64{1, 1}, 1}, {[]float64{0, 3}, 0.5}, {[]float64{0, 0}, 0}, {[]float64{5}, 1},
	} {
		if got := jain(tc.rates); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.rates, got, tc.want)
		}
	}
}
