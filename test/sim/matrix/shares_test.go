package matrix

import (
	"slices"
	"testing"
	"time"

	"gobtl/fabric/sim"
)

// TestShortPathIsShared has many runs on a path so short that losses alone tell of the queue, with
// few losses by chance: two streams share it as a rule, not only when chance is kind. (Each run has
// a seed of its own, because its cell has a name of its own.)
func TestShortPathIsShared(t *testing.T) {
	skipRace(t)
	const runs = 24
	indices := make([]float64, runs)
	mean, unfair := 0.0, 0
	for i := range indices {
		r := Result{Profile: "adaptive", MessageBytes: streamBytes}
		r.Cell = Cell{50 * time.Microsecond, 10e9, 4, 0.001 + float64(i)*1e-6, 0}
		if err := r.measureTwo(Quick, nil); err != nil {
			t.Fatal(err)
		}
		indices[i] = r.Jain
		mean += r.Jain / runs
		if r.Jain < .9 {
			unfair++
		}
	}
	slices.Sort(indices)
	t.Logf("Jain %.3f on average, %d of %d below .9, least %.3f", mean, unfair, runs, indices[0])
	if mean < .96 || unfair > runs/8 {
		t.Errorf("Jain %.3f on average, %d of %d below .9: %.3f; want .96, %d", mean, unfair, runs,
			indices, runs/8)
	}
}

// TestShortQueueIsUsed has streams on a path whose queue is a quarter of what the path holds, which
// is too short for a delay to tell much, alone and in pairs: what is lost there, by the queue or by
// chance, does not keep the line empty, and not one of two out of it. Each figure is the mean of
// several runs. The least of Jain's indices is below what six other sets of so many runs have come
// to: .93, .91, .84 and .65.
func TestShortQueueIsUsed(t *testing.T) {
	skipRace(t)
	const runs = 5
	for _, tc := range []struct {
		loss, reorder float64
		share, pair   float64 // of the ceiling, at least
		jain          float64 // of two, at least
	}{
		{0, 0, .93, .92, .86},
		{.01, 0, .84, .90, .84},
		{.05, 0, .78, .87, .75},
		{.05, .2, .75, .86, .58},
	} {
		var share, pair, jain float64
		for i := range runs {
			r := Result{Profile: "adaptive", MessageBytes: streamBytes}
			r.Cell = Cell{time.Millisecond + time.Duration(i), 1e9, .25, tc.loss, tc.reorder}
			for _, run := range []func(*Result, Effort, *sim.Memory) error{
				(*Result).measureOne, (*Result).measureTwo,
			} {
				if err := run(&r, Full, nil); err != nil {
					t.Fatal(err)
				}
			}
			share += r.Share / runs
			pair += r.PairShare / runs
			jain += r.Jain / runs
		}
		t.Logf("loss %g, reorder %g: %.3f of the line; two: %.3f, Jain %.3f", tc.loss, tc.reorder, share,
			pair, jain)
		if share < tc.share || pair < tc.pair || jain < tc.jain {
			t.Errorf("want %.2f, two %.2f, Jain %.2f", tc.share, tc.pair, tc.jain)
		}
	}
}
