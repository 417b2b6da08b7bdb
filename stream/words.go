package stream

import "strconv"

var overrunWords = [...]string{
	Block: "block",
	Drop:  "drop",
}

// String returns the name of the policy.
func (o Overrun) String() string {
	if int(o) < len(overrunWords) {
		return overrunWords[o]
	}
	return "Overrun(" + strconv.Itoa(int(o)) + ")"
}
