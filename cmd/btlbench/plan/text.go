package plan

import (
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"
)

// Suggestion returns `, did you mean "x"?` for the candidate nearest to a mistyped word, and
// nothing when none is near.
func Suggestion(word string, candidates []string) string {
	best, bestDistance := "", max(2, len(word)/3)+1
	for _, candidate := range candidates {
		d := levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(candidate))
		if d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best == "" || word == "" {
		return ""
	}
	return ", did you mean \"" + best + "\"?"
}

// OneLine folds a text into a single line of characters that print: whatever a peer or a library
// put into an error moves no cursor and turns no text around on the user's terminal. Bytes that are
// no UTF-8 become a sign for that.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), func(r rune) bool {
		return !unicode.IsPrint(r) && r != ' '
	}), " ")
}
