package reliability

import (
	"testing"
	"time"
)

// TestWobble checks which least round trips of rounds show a path that is slow to hand packets on,
// and that those of a queue do not.
func TestWobble(t *testing.T) {
	const us, rounds = time.Microsecond, 1000
	rules := Rules{TargetDelay: time.Millisecond}
	upAndDown := func(i int, by time.Duration) time.Duration {
		return 300*us + time.Duration(i%3)*by // two rises, a fall
	}
	for _, c := range []struct {
		name  string
		least func(i int) (least, packet time.Duration, steady bool)
		want  time.Duration
	}{
		{"constant", func(int) (time.Duration, time.Duration, bool) {
			return 300 * us, us, true
		}, 0},
		{"up and down", func(i int) (time.Duration, time.Duration, bool) {
			return upAndDown(i, 200*us), us, true
		}, wobbleMost * time.Millisecond},
		{"little", func(i int) (time.Duration, time.Duration, bool) {
			return upAndDown(i, wobbleTurn), us, true
		}, 0},
		{"two long packets", func(i int) (time.Duration, time.Duration, bool) {
			return upAndDown(i, 200*us), 30 * us, true
		}, 0},
		{"a queue that fills and drains", func(i int) (time.Duration, time.Duration, bool) {
			return 300*us + time.Duration(min(i%40, 40-i%40))*200*us, us, true
		}, 0},
		{"a window that becomes smaller", func(i int) (time.Duration, time.Duration, bool) {
			return upAndDown(i, 200*us), us, i%3 != 0
		}, 0},
		{"not measured in between", func(i int) (time.Duration, time.Duration, bool) {
			if i%3 == 2 {
				return 0, us, true
			}
			return upAndDown(i, 400*us), us, true
		}, 0},
	} {
		var w wobble
		for i := range rounds {
			w.round(c.least(i))
		}
		if got := w.room(&rules); got != c.want {
			t.Errorf("%s: room of %v, want %v (share %d)", c.name, got, c.want, w.share)
		}
	}
}

// TestWobbleEnds checks that the room is gone soon after the path has become steady.
func TestWobbleEnds(t *testing.T) {
	rules := Rules{TargetDelay: time.Millisecond}
	w := wobble{share: shareUnits / 2}
	for range 2 * wobbleRounds {
		w.round(time.Millisecond, time.Microsecond, true)
	}
	if got := w.room(&rules); got != 0 {
		t.Errorf("room of %v, share %d", got, w.share)
	}
}
