package clock

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

// What is later than the module's Deadline is no time in which its peers were silent.
func TestPause(t *testing.T) {
	const pauseMin = time.Second
	for _, tc := range []struct {
		name   string
		passAt Time
		now    Time
		asked  Time // the Deadline
		to     Time
		awake  time.Duration // that the call adds
	}{
		{"in time", 100, 100, 200, 200, 100},
		{"idle for long, nothing was asked for", 100, 100, mono.Never, Time(time.Hour) + 100, time.Hour},
		{"called late", 100, 100, 200, Time(time.Hour) + 200, 100},
		{"late since something was asked for", 100, 300, 0, Time(time.Hour) + 300, 0},
		{"late by less than matters", 100, 100, 200, 100 + Time(pauseMin) - 1, pauseMin - 1},
		{"at the same instant", 100, 300, 0, 300, 0},
	} {
		c := Clock{Now: tc.now, Unpaused: 50, PassAt: tc.passAt}
		c.Init(pauseMin)
		asked := mono.Never // as the module has it
		if tc.to.Sub(c.PassAt) >= c.PauseMin {
			asked = tc.asked
		}
		if c.SetNow(tc.to, asked); c.Now != tc.to || c.Unpaused.Sub(50) != tc.awake {
			t.Errorf("%s: now %d, awake for another %v; want %d and %v", tc.name, c.Now,
				c.Unpaused.Sub(50), tc.to, tc.awake)
		}
	}
}

// The time between two passes counts from their beginnings. After a pass that left the timers to
// the next one, the longer of the latest two times counts.
func TestGap(t *testing.T) {
	var c Clock
	for i, tc := range []struct {
		at   Time
		left bool
		want time.Duration
	}{{100, false, 100}, {130, false, 30}, {130, false, 30}, {140, true, 30}, {145, false, 5}} {
		c.SetNow(tc.at, mono.Never)
		c.BeginPass(tc.left)
		if c.Gap != tc.want || c.PassAt != tc.at {
			t.Errorf("pass %d at %d: a gap of %v since %d, want %v", i, tc.at, c.Gap, c.PassAt, tc.want)
		}
		c.EndPass()
		if want := uint64(2*i + 2); c.Epoch != want {
			t.Errorf("pass %d: epoch %d, want %d", i, c.Epoch, want)
		}
	}
}

// Check finds an unpaused time that is ahead.
func TestCheck(t *testing.T) {
	c := Clock{Now: 5, Unpaused: 5}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if c.Unpaused++; c.Check() == nil {
		t.Error("the unpaused time is ahead, and nothing is said")
	}
}
