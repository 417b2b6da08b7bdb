package layers

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

// TestWatchdog: time in which the process did not run is not held against the peer.
func TestWatchdog(t *testing.T) {
	const limit, ms = time.Second, time.Millisecond
	for _, tc := range []struct {
		name    string
		every   time.Duration // between two questions
		changes bool          // of the mark, now and then
		stuck   bool
	}{
		{"nothing happens", ms, false, true},
		{"something happens", ms, true, false},
		{"asleep in between", sleepMost, false, true},
		{"starved", 2 * sleepMost, false, false},
	} {
		w, now, mark, stuck := watchdog{}, mono.Time(1), uint64(1), false
		for i := range 3000 {
			if tc.changes && i%500 == 0 {
				mark++
			}
			now = now.Add(tc.every)
			stuck = stuck || w.stuck(mark, now, limit)
		}
		if stuck != tc.stuck {
			t.Errorf("%s: stuck: %v", tc.name, stuck)
		}
	}
}
