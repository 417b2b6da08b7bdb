package reliability

import "gobtl/internal/words"

var ackVerdictWords = [...]string{
	AckNew:       "new",
	AckDuplicate: "duplicate",
	AckIdle:      "idle",
	AckOld:       "old",
	AckBogus:     "bogus",
	AckLie:       "lie",
}

// String returns the name of the verdict.
func (a AckVerdict) String() string { return words.Name(ackVerdictWords[:], int(a), "AckVerdict") }

var causeWords = [...]string{
	CauseTimeout: "time-out",
	CauseDupAck:  "duplicate ACK",
	CauseRefused: "refused",
	CauseLost:    "lost",
	CauseProbe:   "probe",
}

// String returns the name of the cause.
func (c Cause) String() string { return words.Name(causeWords[:], int(c), "Cause") }

var channelWords = [...]string{
	Command: "command",
	Data:    "data",
}

// String returns the name of the channel.
func (c Channel) String() string { return words.Name(channelWords[:], int(c), "Channel") }

var verdictWords = [...]string{
	Accept:    "accepted",
	Duplicate: "duplicate",
	Below:     "below",
	Above:     "above",
}

// String returns the name of the verdict.
func (v Verdict) String() string { return words.Name(verdictWords[:], int(v), "Verdict") }
