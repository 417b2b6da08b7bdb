package waiting

import "testing"

// TestStolenOf checks the first lines that kernels write to /proc/stat, and other texts.
func TestStolenOf(t *testing.T) {
	for text, want := range map[string]uint64{
		"cpu  1 2 3 4 5 6 7 89 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n": 89,
		"cpu  1 2 3 4 5 6 7 89":                                 89,
		"cpu  1 2 3 4 5 6 7\ncpu0 1 2 3 4 5 6 7 8\n":            0,
		"cpu  1 2 3 4 5 6 7 x\n":                                0,
		"":                                                      0,
	} {
		if got := stolenOf(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
