// Package plain makes text of a stranger fit for a terminal and a log.
//
//	"no such\x1b[2J receiver\n"  ->  "no such [2J receiver"
//
// Functions of text alone; any goroutine may call them.
package plain

import (
	"strings"
	"unicode"
)

// LineMax bounds a line of a stranger's, in characters.
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

// Text is Line without a bound: for text of one's own that repeats what a stranger has said.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
