package frag

import "gobtl/internal/words"

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
func (o OpCode) String() string { return words.Name(opCodeWords[:], int(o), "OpCode") }

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
func (a Action) String() string { return words.Name(actionWords[:], int(a), "Action") }

var probeWords = [...]string{
	ProbeCommand: "command",
	ProbeData:    "data",
}

// String returns the name of the channel.
func (p Probe) String() string { return words.Name(probeWords[:], int(p), "Probe") }
