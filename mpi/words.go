package mpi

import "gobtl/internal/words"

var comparisonWords = [...]string{
	Identical: "identical",
	Congruent: "congruent",
	Similar:   "similar",
	Unequal:   "unequal",
}

// String returns the name of the comparison's result.
func (c Comparison) String() string {
	return words.Name(comparisonWords[:], int(c), "Comparison")
}
