//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
)

// TestListing: a table that is wider than the terminal stands upright, and fits; nothing is lost.
func TestListing(t *testing.T) {
	l := newListing("port", "device", "address", "state", "problems")
	l.add(1, "vnic1", "02:00:01:01:00:00", "forwarding", "")
	l.add(12, "vnic12", "02:00:01:01:00:01", "no device", "device: it may not be opened by this user")
	wide := l.render(0)
	lines := strings.Split(wide, "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[2], "   1  vnic1 ") {
		t.Errorf("a table:\n%s", wide)
	}
	if l.render(text.LongestLineLen(wide)) != wide || l.render(text.LongestLineLen(wide)-1) == wide {
		t.Errorf("of two terminals, one is wide enough:\n%s", wide)
	}
	for _, columns := range []int{40, 50, 80} {
		out := l.render(columns)
		if text.LongestLineLen(out) > columns || strings.Count(out, "problems") != 1 {
			t.Errorf("%d columns:\n%s", columns, out)
		}
		for _, word := range strings.Fields(wide) {
			if !strings.Contains(word, "─") && !strings.Contains(out, word) {
				t.Errorf("%d columns, without %s:\n%s", columns, word, out)
			}
		}
	}
	told := newListing("problem")
	told.add("\u009b2J\x1b]0;title\a\u202e\nover")
	if out := told.render(0); strings.ContainsAny(out, "\u009b\x1b\a\u202e") ||
		strings.Count(out, "\n") != 2 {
		t.Errorf("a peer's text reaches the terminal: %q", out)
	}
	if out := newListing("host", "LID").render(5); !strings.HasPrefix(out, "host  LID\n") {
		t.Errorf("without rows:\n%s", out)
	}
}
