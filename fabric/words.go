package fabric

import "strconv"

var opWords = [...]string{
	OpSend: "send",
	OpRecv: "receive",
}

// String returns what has completed.
func (o Op) String() string {
	if int(o) < len(opWords) && opWords[o] != "" {
		return opWords[o]
	}
	return "Op(" + strconv.Itoa(int(o)) + ")"
}
