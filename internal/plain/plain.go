// Package plain sanitizes untrusted text for a terminal or a log.
//
//	"no such\x1b[2J receiver\n"  ->  "no such [2J receiver"
//
// The functions have no state, and any goroutine may call them.
package plain

import (
	"strings"
	"unicode"
)

// LineMax is the largest length of a line that Line returns, in characters.
const LineMax = 300

// Line converts an untrusted text to one line. In a line, each sequence of spaces and unprintable
// characters becomes one space, and spaces at the ends are removed. The line is truncated to
// LineMax characters.
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

// Text converts a text to one line without a limit of length. In the line, each sequence of
// unprintable characters becomes one space, and unprintable characters at the ends are removed.
// Text is for the program's own text that quotes untrusted text.
func Text(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), func(r rune) bool {
		return !unicode.IsPrint(r)
	}), " ")
}
