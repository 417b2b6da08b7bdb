package probe

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

// Channels that count no overruns are not asked for them.
func TestOverrunsOfNobody(t *testing.T) {
	var o Overruns
	if overrun, known := o.Look(1, 7); overrun || known {
		t.Errorf("overrun %v, known %v", overrun, known)
	}
}

// The fabric is asked for overruns at first, and then when a while is over and as many packets have
// come as were before one that is lost.
func TestOverrunsLooked(t *testing.T) {
	const first, later = Time(1), Time(1 + overrunsEvery)
	o := Overruns{fewest: 3}
	if !o.due(first, 7) {
		t.Error("not asked at first")
	}
	o.looking, o.lookedAt, o.received = true, first, 7
	for _, tc := range []struct {
		now      Time
		received uint64
		want     bool
	}{{later, 10, true}, {later - 1, 1000, false}, {later + 1000, 9, false}} {
		if o.due(tc.now, tc.received) != tc.want {
			t.Errorf("%v later, %d packets later: asked is %v", tc.now-first, tc.received-7, !tc.want)
		}
	}
}
