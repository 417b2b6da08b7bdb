package spare

import "testing"

// A value is used again, and a bounded number of values is kept.
func TestListIsBounded(t *testing.T) {
	var l List[[8]int]
	first := l.Take()
	l.Give(first)
	if l.Take() != first {
		t.Error("another value")
	}
	for range 2 * ListMax {
		l.Give(new([8]int))
	}
	if n := len(l.idle); n != ListMax {
		t.Errorf("%d values are kept, want %d", n, ListMax)
	}
	if n := testing.AllocsPerRun(100, func() { l.Give(l.Take()) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
