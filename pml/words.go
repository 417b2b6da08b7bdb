package pml

import "strconv"

var modeWords = [...]string{
	Standard:    "standard",
	Synchronous: "synchronous",
	Ready:       "ready",
}

// String returns the mode of the send.
func (m Mode) String() string {
	if int(m) < len(modeWords) {
		return modeWords[m]
	}
	return "Mode(" + strconv.Itoa(int(m)) + ")"
}
