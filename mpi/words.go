package mpi

import "strconv"

var comparisonWords = [...]string{
	Identical: "identical",
	Congruent: "congruent",
	Similar:   "similar",
	Unequal:   "unequal",
}

// String returns the name of the comparison's result.
func (c Comparison) String() string {
	if c >= 0 && int(c) < len(comparisonWords) {
		return comparisonWords[c]
	}
	return "Comparison(" + strconv.Itoa(int(c)) + ")"
}
