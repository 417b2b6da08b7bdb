package stream

import "strconv"

var overrunWords = [...]string{
	Block: "block",
	Drop:  "drop",
}

// String returns the name of the overrun policy.
func (o Overrun) String() string {
	if int(o) < len(overrunWords) {
		return overrunWords[o]
	}
	return "Overrun(" + strconv.Itoa(int(o)) + ")"
}

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
func (r Reason) String() string {
	if int(r) < len(reasonWords) {
		return reasonWords[r]
	}
	return "Reason(" + strconv.Itoa(int(r)) + ")"
}
