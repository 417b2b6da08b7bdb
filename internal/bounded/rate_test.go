package bounded

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRate checks that a Rate lets few lines of a second through, counts all others, and tells
// their number with the next line, or at the end.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Rate
		second := func(want string) {
			t.Helper()
			lines := 0
			for i := range 1000 {
				before, ok := r.Allow()
				if ok {
					lines++
				}
				if i == 0 && before != want || i > 0 && before != "" {
					t.Errorf("line %d begins with %q", i, before)
				}
			}
			if lines != LinesPerSecond {
				t.Errorf("%d lines, want %d", lines, LinesPerSecond)
			}
		}
		second("")
		time.Sleep(time.Second)
		second("990 more like this were left out; ")
		if rest := r.Rest(); rest != "990 more like this were left out" {
			t.Errorf("%q", rest)
		}
		if rest := r.Rest(); rest != "" {
			t.Errorf("%q again", rest)
		}
	})
}
