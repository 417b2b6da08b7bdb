package matrix

import (
	"slices"
	"testing"
	"time"
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
