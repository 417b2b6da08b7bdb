package stream

import "gobtl/internal/words"

var overrunWords = [...]string{
	Block: "block",
	Drop:  "drop",
}

// String returns the name of the overrun policy.
func (o Overrun) String() string { return words.Name(overrunWords[:], int(o), "Overrun") }

var reasonWords = [...]string{
	RefusedMismatch:    "mismatch",
	RefusedWish:        "wish",
	RefusedTaken:       "taken",
	RefusedSilent:      "silent",
	RefusedAddress:     "address",
	RefusedUnreachable: "unreachable",
	RefusedThere:       "there",
}

// String returns the name of the reason, which is also the JSON name of the reason's counter in
// Refusals.
func (r Reason) String() string { return words.Name(reasonWords[:], int(r), "Reason") }
