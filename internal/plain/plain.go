// Package plain sanitizes untrusted text for a terminal or a log, and shortens texts of errors.
//
//	"no such\x1b[2J receiver\n"  -->  "no such [2J receiver"
//
// The functions have no state, and any goroutine may call them.
package plain

import (
	"strings"
	"unicode"
)

// LineMax is the largest length of the text that the function Line returns, in characters.
const LineMax = 300

// Line converts an untrusted text to one line. In the result of Line, each sequence of spaces and
// unprintable characters becomes one space, and spaces at both ends are removed. The result is
// truncated to LineMax characters.
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

// Text converts a text to one line, whose length has no limit. In the result of Text, each sequence
// of unprintable characters becomes one space, and unprintable characters at both ends are removed.
// The function Text is meant for messages of the program that quote untrusted text.
func Text(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), func(r rune) bool {
		return !unicode.IsPrint(r)
	}), " ")
}

// Inner returns an error that wraps err, and whose text is the text of err without the given
// prefix, such as the name of a package. Inner removes the prefix from the parts of the text that
// come from wrapped errors as well. The result of Inner is meant for use within a longer error text
// that already begins with the prefix. Inner returns nil for a nil error.
func Inner(prefix string, err error) error {
	if err == nil {
		return nil
	}
	return inner{prefix, err}
}

// inner is an error whose text has no prefix.
type inner struct {
	prefix string
	err    error
}

// Error implements error.
func (e inner) Error() string {
	text := strings.TrimPrefix(e.err.Error(), e.prefix)
	return strings.ReplaceAll(text, ": "+e.prefix, ": ")
}

// Unwrap returns the error with the whole text.
func (e inner) Unwrap() error { return e.err }
