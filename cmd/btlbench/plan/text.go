package plan

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Suggestion returns `, did you mean "x"?` for the candidate that is most similar to a word, or an
// empty string if none is similar.
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
