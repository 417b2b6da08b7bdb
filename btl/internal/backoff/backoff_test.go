package backoff

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/internal/mono"
)

// Each pause is twice as long as the one before, up to the limit, and short again after a success.
func TestLength(t *testing.T) {
	t.Parallel()
	var s Pauses[int]
	var p Pause
	now := mono.Time(1)
	pause := func() time.Duration {
		s.Begin(0, &p, now)
		length := s.Deadline().Sub(now)
		s.Begin(0, &p, now.Add(1)) // pauses already
		if s.Deadline() != now.Add(length) || !p.Waits() || s.Due(now.Add(length-1)) {
			t.Fatalf("pause of %v ends at %d", length, s.Deadline())
		}
		now = now.Add(length)
		if !s.Due(now) {
			t.Fatal("the end of the pause is not due")
		}
		s.End(now, func(int) {})
		if p.Waits() || s.Deadline() != mono.Never || s.Due(now) {
			t.Fatal("the pause does not end")
		}
		return length
	}
	for want := Least; want < Most; want *= 2 {
		if got := pause(); got != want {
			t.Errorf("pause of %v, want %v", got, want)
		}
	}
	for range 2 {
		if got := pause(); got != Most {
			t.Errorf("pause of %v, want %v", got, Most)
		}
	}
	p.Succeeded()
	if got := pause(); got != Least {
		t.Errorf("pause of %v after a success, want %v", got, Least)
	}
}

// Each endpoint goes on at the end of its own pause, and the deadline is that of the first.
func TestEachAtItsTime(t *testing.T) {
	t.Parallel()
	var s Pauses[int]
	pauses := make([]Pause, 4)
	for i := range pauses {
		s.Begin(i, &pauses[i], mono.Time(1).Add(time.Duration((i*2)%3)*time.Microsecond))
	}
	var order []int
	for s.Deadline() != mono.Never {
		now := s.Deadline()
		s.End(now, func(i int) { order = append(order, i) })
		if n, err := s.Check(func(int) bool { return true }); err != nil || n != 4-len(order) {
			t.Fatalf("%d pause after %v: %v", n, order, err)
		}
	}
	if want := []int{0, 3, 2, 1}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if n := cap(s.waiting); n == 0 || s.waiting[:n][0].pause != nil {
		t.Error("an endpoint that no longer pauses is kept")
	}
}

// Check finds a deadline that is too late, and counts the endpoints that the caller counts.
func TestCheck(t *testing.T) {
	t.Parallel()
	var s Pauses[int]
	pauses := make([]Pause, 3)
	for i := range pauses {
		s.Begin(i, &pauses[i], 1)
	}
	if n, err := s.Check(func(i int) bool { return i > 0 }); n != 2 || err != nil {
		t.Errorf("%d are counted, want 2: %v", n, err)
	}
	for _, damage := range []func(){
		func() { s.first++ }, func() { s.first = 0 }, func() { pauses[1].until = 0 },
	} {
		before, pause := s, pauses[1]
		damage()
		if _, err := s.Check(func(int) bool { return true }); err == nil ||
			!strings.Contains(err.Error(), "ends at") {
			t.Errorf("damage is not found: %v", err)
		}
		s, pauses[1] = before, pause
	}
}
