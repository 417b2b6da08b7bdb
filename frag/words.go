package frag

import "strconv"

var opCodeWords = [...]string{
	OpPart:   "part",
	OpNotice: "notice",
	OpPlaced: "placed",
	OpGet:    "get",
	OpAtomic: "atomic",
	OpResult: "result",
	OpFailed: "failed",
}

// String returns the name of the OpCode.
func (o OpCode) String() string { return word(opCodeWords[:], int(o), "OpCode") }

var actionWords = [...]string{
	ActionAdd:         "add",
	ActionSwap:        "swap",
	ActionCompareSwap: "compare and swap",
	ActionAnd:         "and",
	ActionOr:          "or",
	ActionXor:         "xor",
	ActionMin:         "min",
	ActionMax:         "max",
	ActionRead:        "read",
}

// String returns the name of the action.
func (a Action) String() string { return word(actionWords[:], int(a), "Action") }

var probeWords = [...]string{
	ProbeCommand: "command",
	ProbeData:    "data",
}

// String returns the name of the channel.
func (p Probe) String() string { return word(probeWords[:], int(p), "Probe") }

func word(words []string, value int, of string) string {
	if value >= 0 && value < len(words) && words[value] != "" {
		return words[value]
	}
	return of + "(" + strconv.Itoa(value) + ")"
}
