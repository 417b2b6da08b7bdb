package fabric

import "gobtl/internal/words"

var opWords = [...]string{
	OpSend: "send",
	OpRecv: "receive",
}

// String returns the name of the operation.
func (o Op) String() string { return words.Name(opWords[:], int(o), "Op") }
