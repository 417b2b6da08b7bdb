package call

import (
	"math"
	"testing"
	"time"
)

// A handler that notices its deadline before its caller does would answer one that waits still.
func TestLeftMs(t *testing.T) {
	for _, left := range []time.Duration{
		-time.Second, 0, 1, time.Millisecond - 1, time.Millisecond, 30*time.Millisecond - 1,
		30 * time.Millisecond, time.Hour, math.MaxInt64,
	} {
		ms := leftMs(left)
		if ms == 0 {
			t.Errorf("%v: 0 is no deadline", left)
		}
		if ms != math.MaxUint32 && time.Duration(ms)*time.Millisecond < left {
			t.Errorf("%v: the handler has %d ms", left, ms)
		}
	}
}
