package tidy

import (
	"bytes"
	"path"
	"regexp"
	"strings"
)

// The regular expressions below are composed of parts, because this file must not contain the words
// that they match.
var (
	// The variable "unfinished" is a pattern for the usual marks of unfinished work.
	unfinished = regexp.MustCompile(`\b(` + "TO" + "DO|FIX" + "ME|X" + "XX" + `)\b`)

	// ownPath matches file paths that exist only on one developer's machine.
	ownPath = regexp.MustCompile(
		`(^|[\s"'=:(\x60])/(` + "ho" + "me|ro" + "ot|Us" + "ers|wo" + "rk" + `)(/|\b)`)

	// The variable "picture" is a pattern for emoji and similar characters.
	picture = regexp.MustCompile(`[\x{1F000}-\x{1FAFF}\x{2600}-\x{27BF}\x{FE0F}]`)
)

// The method "text" checks a text file of any kind for forbidden words, paths and characters.
func (c *checker) text(f File) {
	if path.Base(f.Path) == "go.sum" || strings.Contains("/"+f.Path, "/testdata/fuzz/") {
		return // checksums and fuzzed bytes are not words
	}
	number := 0
	for line := range bytes.Lines(f.Data) {
		number++
		if found := unfinished.Find(line); found != nil {
			c.report(f.Path, number, "word", "%s: do it, or say why it is as it is", found)
		}
		if found := ownPath.Find(line); found != nil {
			c.report(f.Path, number, "path", "%q is a path of one machine", found)
		}
		if picture.Match(line) {
			c.report(f.Path, number, "picture", "no emoji")
		}
	}
}

func isBinary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0
}
