package btlprom

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// LabelValue converts a text to a valid value of a Prometheus label. LabelValue replaces each byte
// that is not valid UTF-8 by \x and two hexadecimal digits. Without LabelValue, one label value
// that is not valid UTF-8, such as the name of a network interface, would make Prometheus reject a
// whole scrape.
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
