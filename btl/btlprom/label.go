package btlprom

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// LabelValue returns a text that may be the value of a label. Prometheus takes UTF-8 alone, and
// refuses a whole scrape for one label that is something else, as the name of an interface may be.
// Each byte that is not part of UTF-8 is written as \xFF, with its two digits.
func LabelValue(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02X`, text[0])
		} else {
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}
