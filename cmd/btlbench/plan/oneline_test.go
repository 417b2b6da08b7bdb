package plan

import "testing"

// What a peer says moves no cursor, breaks no line and turns no text around.
func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb":                            "a b",
		"no such\x1b[2J receiver":         "no such [2J receiver",
		"\u202eright to left\u2028\u009b": "right to left",
		"bad \xff byte":                   "bad \ufffd byte",
		"x\u0085y":                        "x y",
		"Grüße,  two spaces":              "Grüße,  two spaces",
	} {
		if got := OneLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
