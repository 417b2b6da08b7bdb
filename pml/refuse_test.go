package pml

import "testing"

// No more than refusedMax groups are refused: the latest ones.
func TestRefusedMost(t *testing.T) {
	t.Parallel()
	step, layers := memLayers(t, 1, Config{})
	l, now := layers[0], step()
	const more = 10
	refuse := func(i int) { l.Refuse(now, uint64(i)<<GroupBits, nil) }
	for i := range refusedMax + more {
		refuse(i)
		refuse(i) // does not count twice
	}
	if n := len(l.refused.groups); n != refusedMax {
		t.Errorf("%d groups are refused, want %d", n, refusedMax)
	}
	for i, want := range map[int]bool{0: false, more - 1: false, more: true, refusedMax + more - 1: true} {
		if got := l.refused.has(uint64(i)<<GroupBits + 5); got != want {
			t.Errorf("group %d is refused: %v, want %v", i, got, want)
		}
	}
}
