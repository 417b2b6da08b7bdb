package matrix

import (
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	for _, c := range []Cell{
		{50 * time.Microsecond, 1e9, 1, 0, 0},
		{50 * time.Microsecond, 1e9, 1, 0.01, 0},
		{50 * time.Microsecond, 10e9, 4, 0.01, 0},
		{1 * time.Millisecond, 1e9, 1, 0.01, 0},
		{1 * time.Millisecond, 100e6, 1, 0, 0},
		{20 * time.Millisecond, 1e9, 1, 0, 0},
		{20 * time.Millisecond, 10e9, 1, 0, 0},
	} {
		b := time.Now()
		r, err := Measure(c, "usnic", Full, nil)
		t.Logf("%v %v %v", time.Since(b), r.Text(), err)
	}
}
