package plain

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLine checks that untrusted text moves no cursor, breaks no line and has a bounded length.
func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                                "",
		" a  b\r\n\tc ":                   "a b c",
		"no such\x1b[2J receiver\n":       "no such [2J receiver",
		"\u202eright to left\u2028\u009b": "right to left",
		"bad \xff byte":                   "bad \ufffd byte",
		"Grüße":                           "Grüße",
	} {
		if got := Line(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	long := Line(strings.Repeat("x y", 1<<20))
	if n := utf8.RuneCountInString(long); n > LineMax || n < LineMax-1 {
		t.Errorf("%d characters", n)
	}
}

// TestText checks the same of the program's own text, whose length and spaces stay.
func TestText(t *testing.T) {
	long := strings.Repeat("x", 10*LineMax)
	for in, want := range map[string]string{
		"":                                "",
		"a\nb\r\n\tc\n":                   "a b c",
		"no such\x1b[2J receiver":         "no such [2J receiver",
		"\u202eright to left\u2028\u009b": "right to left",
		"bad \xff byte":                   "bad \ufffd byte",
		"x\u0085y":                        "x y",
		"Grüße,  two spaces":              "Grüße,  two spaces",
		long:                              long,
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
