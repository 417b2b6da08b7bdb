package waiting

import "testing"

// TestTurns checks that preemptions of another thread before its turn do not count.
func TestTurns(t *testing.T) {
	var sum OSThread
	for i, step := range []struct {
		thread int
		count  uint64
		want   uint64
	}{
		{1, 100, 0}, {1, 103, 3}, {2, 5000, 3}, {2, 5001, 4}, {1, 200, 4}, {1, 200, 4}, {1, 202, 6},
	} {
		if got := sum.count(step.thread, step.count); got != step.want {
			t.Errorf("step %d: %d switches, want %d", i, got, step.want)
		}
	}
}
