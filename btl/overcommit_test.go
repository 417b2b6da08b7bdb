package btl

import (
	"testing"
	"time"
)

// One round trip says little of a path: it counts from the fourth on, and then the least of them.
func TestTripOfSeveral(t *testing.T) {
	now := Time(1)
	p := trip{since: now}
	for i, took := range []time.Duration{30, 8, 20, 5, 9} {
		took *= time.Millisecond
		p.askedAt, p.nextAt = now, now.Add(tripEvery)
		now = now.Add(took)
		least, known := p.answered(now)
		if known != (i >= 3) || known && least != 5*time.Millisecond {
			t.Errorf("answer %d: known %v, %v", i, known, least)
		}
		next := p.nextAt.Sub(now)
		if soon := next == tripSoon; soon != (i < 4) || p.askedAt != 0 {
			t.Errorf("answer %d: asked again after %v", i, next)
		}
		now = now.Add(next)
	}
}
