package numbers

import "testing"

func TestNonZero(t *testing.T) {
	t.Parallel()
	drawn := []uint64{0, 0, 7}
	source := func() uint64 {
		r := drawn[0]
		drawn = drawn[1:]
		return r
	}
	if r := NonZero(source)(); r != 7 {
		t.Errorf("got %d, want 7", r)
	}
}
