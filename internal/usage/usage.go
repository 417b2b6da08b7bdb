package usage

import (
	"regexp"
	"strconv"
)

// misread is kong's error of a flag behind which it has found no value: the flag, and what stood
// there.
var misread = regexp.MustCompile(
	`^(-\S+): expected \w+ value but got ("(?:[^"\\]|\\.)*") \((.+?)\)`)

// negative is a number that looks like a flag; no flag of the house takes one.
var negative = regexp.MustCompile(`^-[0-9.]`)

// Text is the text of an error of kong's Parse.
func Text(err error) string {
	text := err.Error()
	found := misread.FindStringSubmatch(text)
	if found == nil {
		return text
	}
	flag, kind := found[1], found[3]
	got, bad := strconv.Unquote(found[2])
	switch {
	case bad != nil:
		return text
	case kind == "<EOL>":
		return flag + " needs a value"
	case negative.MatchString(got):
		return flag + " must not be negative: " + got
	}
	return flag + " needs a value, and " + got + " is a flag; as a value it is written " +
		flag + "=" + got
}
