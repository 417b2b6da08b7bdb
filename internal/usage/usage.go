package usage

import (
	"regexp"
	"strconv"
)

// The expression misread matches kong's error for a flag whose value is missing. The groups of
// misread are the flag, the next word of the command line, and the kind of this word.
var misread = regexp.MustCompile(
	`^(-\S+): expected \w+ value but got ("(?:[^"\\]|\\.)*") \((.+?)\)`)

// negative matches a negative number, which looks like a flag.
var negative = regexp.MustCompile(`^-[0-9.]`)

// The expression unread matches kong's error for a value that is not a number. The groups of unread
// are the flag, the expected kind of number, and the value.
var unread = regexp.MustCompile(
	`^(\S+): expected a (?:valid \d+ bit )?(int|uint|float) but got (".*")(?: \(string\))?$`)

// bare matches kong's error for a program that is called without a command.
var bare = regexp.MustCompile(`^expected "<command> \.\.\."$`)

// Text returns a clear text for an error that kong's Parse has returned.
func Text(err error) string {
	text := err.Error()
	if bare.MatchString(text) {
		return "a command is missing; --help lists the commands"
	}
	if found := unread.FindStringSubmatch(text); found != nil {
		if found[2] == "float" {
			return found[1] + ": " + found[3] + " is not a number"
		}
		return found[1] + ": " + found[3] + " is not a whole number"
	}
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
