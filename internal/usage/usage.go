package usage

import (
	"errors"
	"regexp"
	"strconv"

	"github.com/alecthomas/kong"
)

// The variable "misread" is a pattern for kong's error text when the value of a flag is missing.
// The three capture groups of "misread" are the flag, the next word of the command line, and the
// kind of this word.
var misread = regexp.MustCompile(
	`^(-\S+): expected \w+ value but got ("(?:[^"\\]|\\.)*") \((.+?)\)`)

// The variable "negative" is a pattern for negative numbers, which kong mistakes for flags.
var negative = regexp.MustCompile(`^-[0-9.]`)

// The variable "unread" is a pattern for kong's error text when a value is not a number. The three
// capture groups of "unread" are the flag, the expected kind of number, and the value.
var unread = regexp.MustCompile(
	`^(\S+): expected a (?:valid \d+ bit )?(int|uint|float) but got (".*")(?: \(string\))?$`)

// The variable "bare" is a pattern for kong's error text when the command line lacks a command.
var bare = regexp.MustCompile(`^expected "<command> \.\.\."$`)

// otherJSON matches kong's error text for the unknown flags --json and -J, which are common in
// similar programs, where the programs of this module have --format json.
var otherJSON = regexp.MustCompile(`^unknown flag (--json|-J)(,|$)`)

// Misuse returns a clear text for an error of kong's Parse. The text ends with the command line
// that prints the relevant help.
func Misuse(program string, err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if command := parse.Context.Selected(); command != nil {
			program = command.FullPath()
		}
	}
	return habit(program, Text(err)) + " (see " + program + " --help)"
}

// Text returns a clear text for an error of kong's Parse.
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
