// Package plain sanitizes untrusted text for a terminal or a log.
//
//	"no such\x1b[2J receiver\n"  ->  "no such [2J receiver"
//
// The functions have no state; any goroutine may call them.
package plain

import (
	"strings"
	"unicode"
)

// LineMax bounds a line of untrusted text, in characters.
const LineMax = 300

// Line makes one line of a text: characters that do not print become spaces, runs of them one
// space, none at the ends, and at most LineMax characters stay.
func Line(text string) string {
	var b strings.Builder
	space, count := false, 0
	for _, r := range text {
		if !unicode.IsPrint(r) || r == ' ' {
			space = true
			continue
		}
		if space && count > 0 {
			b.WriteByte(' ')
			count++
		}
		if space = false; count >= LineMax {
			break
		}
		b.WriteRune(r)
		count++
	}
	return strings.TrimSpace(b.String())
}

// Text is Line without a bound. It is for the program's own text that quotes untrusted text.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
