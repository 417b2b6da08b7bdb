package stream

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

// TestDelay: with a delay no two messages leave together, and none too early behind the one before,
// also after a hold-up; with only a rate they may leave in runs.
func TestDelay(t *testing.T) {
	const size = 100
	p := newPacer(0, 10*time.Microsecond, size, size, 1<<20)
	now, latest := mono.Time(1), mono.Time(0)
	for i := range 1000 {
		if i == 500 {
			now = now.Add(time.Second)
		}
		for p.budget(now) == 0 {
			now = now.Add(100 * time.Nanosecond)
		}
		if n := p.budget(now); n > size {
			t.Fatalf("%d bytes at once", n)
		}
		if gap := now.Sub(latest); i > 0 && gap < 10*time.Microsecond {
			t.Fatalf("message %d after %v", i, gap)
		}
		latest = now
		p.sent(now, size)
	}
	p = newPacer(80e6, 0, size, size, 1<<20)
	if n := p.budget(1); n != 500 {
		t.Errorf("a rate leaves in runs of %d bytes, want what 50 us take", n)
	}
	p = newPacer(80e6, time.Microsecond, size, size, 1<<20)
	if n := p.budget(1); n != size {
		t.Errorf("rate and delay: %d bytes at once", n)
	}
}

// TestSampling: a sample each time that so many more have been counted.
func TestSampling(t *testing.T) {
	s := sampling{every: 10}
	var due []uint64
	for _, n := range []uint64{0, 9, 10, 11, 19, 20, 57, 58, 60} {
		if s.due(n) {
			due = append(due, n)
		}
	}
	if len(due) != 4 || due[0] != 10 || due[1] != 20 || due[2] != 57 || due[3] != 60 {
		t.Errorf("%v", due)
	}
	if (&sampling{}).due(5) {
		t.Error("a sample of nobody")
	}
}

// TestAwakeInTime: nothing sleeps to the very end of a time, for the kernel wakes late.
func TestAwakeInTime(t *testing.T) {
	const late = 50 * time.Microsecond // the kernel's timer slack
	now := mono.Time(time.Hour)
	for _, ahead := range []time.Duration{
		-time.Second, 0, late, 70 * time.Microsecond, time.Millisecond,
	} {
		d := sleepFor(parkMax, now, now.Add(ahead))
		if d > 0 && d+late >= ahead || d <= 0 && ahead > 2*late {
			t.Errorf("%v ahead: a sleep of %v", ahead, d)
		}
	}
	if d := sleepFor(parkMax, now, mono.Never); d != parkMax {
		t.Errorf("without a deadline %v", d)
	}
}
