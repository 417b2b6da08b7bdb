package pml

import "strconv"

var modeWords = [...]string{
	Standard:    "standard",
	Synchronous: "synchronous",
	Ready:       "ready",
}

// String returns the name of the mode.
func (m Mode) String() string {
	if int(m) < len(modeWords) {
		return modeWords[m]
	}
	return "Mode(" + strconv.Itoa(int(m)) + ")"
}
