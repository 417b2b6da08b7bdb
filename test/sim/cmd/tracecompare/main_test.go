package main

import (
	"errors"
	"strings"
	"testing"
)

func TestFirstDifference(t *testing.T) {
	base := "a\nb\nc\nd\n"
	for _, c := range []struct{ name, here, want string }{
		{"another line", "a\nb\nX\nd\n", "seed 7 differs from line 3 on:\n    b\n  - c\n  + X\n"},
		{"ends early", "a\nb\n", "seed 7 differs from line 3 on:\n    b\n  - c\n  + \n"},
		{"goes on", "a\nb\nc\nd\ne\n", "seed 7 differs from line 5 on:\n    d\n  - \n  + e\n"},
	} {
		if got := firstDifference(7, []byte(base), []byte(c.here), 1); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSummary(t *testing.T) {
	var out strings.Builder
	if err := summary(&out, make([]string, 3)); err != nil {
		t.Errorf("no difference: %v", err)
	}
	if err := summary(&out, []string{"", "seed 2 differs\n"}); !errors.Is(err, errDiffer) {
		t.Errorf("a difference: %v", err)
	}
	want := "3 seeds: 3 with the same trace, 0 differ\n" +
		"seed 2 differs\n2 seeds: 1 with the same trace, 1 differ\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
