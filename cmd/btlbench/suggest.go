package main

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// suggestion returns `, did you mean "x"?` for the candidate nearest to a mistyped word, and
// nothing when none is near.
func suggestion(word string, candidates []string) string {
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
