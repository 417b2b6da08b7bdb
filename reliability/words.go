package reliability

import "strconv"

var ackVerdictWords = [...]string{
	AckNew:       "new",
	AckDuplicate: "duplicate",
	AckIdle:      "idle",
	AckOld:       "old",
	AckBogus:     "bogus",
	AckLie:       "lie",
}

// String returns the name of the verdict.
func (a AckVerdict) String() string { return word(ackVerdictWords[:], int(a), "AckVerdict") }

var causeWords = [...]string{
	CauseTimeout: "time-out",
	CauseDupAck:  "duplicate ACK",
	CauseRefused: "refused",
	CauseLost:    "lost",
	CauseProbe:   "probe",
}

// String returns the name of the cause.
func (c Cause) String() string { return word(causeWords[:], int(c), "Cause") }

var channelWords = [...]string{
	Command: "command",
	Data:    "data",
}

// String returns the name of the channel.
func (c Channel) String() string { return word(channelWords[:], int(c), "Channel") }

var verdictWords = [...]string{
	Accept:    "accepted",
	Duplicate: "duplicate",
	Below:     "below",
	Above:     "above",
}

// String returns the name of the verdict.
func (v Verdict) String() string { return word(verdictWords[:], int(v), "Verdict") }

func word(words []string, value int, of string) string {
	if value >= 0 && value < len(words) && words[value] != "" {
		return words[value]
	}
	return of + "(" + strconv.Itoa(value) + ")"
}
