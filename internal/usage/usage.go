package usage

import (
	"errors"
	"regexp"
	"strconv"

	"github.com/alecthomas/kong"
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

// otherJSON matches kong's error for the names that other programs give to the flag --format json.
var otherJSON = regexp.MustCompile(`^unknown flag (--json|-J)(,|$)`)

// Misuse is the text of an error that kong's Parse returned, with the command that shows the help
// for the command of the error.
func Misuse(program string, err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if command := parse.Context.Selected(); command != nil {
			program = command.FullPath()
		}
	}
	return Text(err) + " (see " + program + " --help)"
}

// Text is the text of an error that kong's Parse returned.
func Text(err error) string {
	text := err.Error()
	if bare.MatchString(text) {
		return "a command is missing; --help lists the commands"
	}
	if found := otherJSON.FindStringSubmatch(text); found != nil {
		return "unknown flag " + found[1] + ": write --format json"
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
