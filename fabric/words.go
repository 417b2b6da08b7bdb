package fabric

import "strconv"

var opWords = [...]string{
	OpSend: "send",
	OpRecv: "receive",
}

// String returns the name of the operation.
func (o Op) String() string {
	if int(o) < len(opWords) && opWords[o] != "" {
		return opWords[o]
	}
	return "Op(" + strconv.Itoa(int(o)) + ")"
}
