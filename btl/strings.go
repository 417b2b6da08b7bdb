package btl

import "strconv"

var eventWords = [...]string{
	EventConnected: "connected",
	EventClosed:    "closed",
	EventFailed:    "failed",
}

// String returns the name of the event.
func (e Event) String() string { return word(eventWords[:], int(e), "Event") }

var statusWords = [...]string{
	Done:   "done",
	Queued: "queued",
}

// String returns the name of the status.
func (s Status) String() string { return word(statusWords[:], int(s), "Status") }

var completionKindWords = [...]string{
	CompletionSend:  "send",
	CompletionFlush: "flush",
	CompletionEvent: "event",
	CompletionRoom:  "room",
}

// String returns the name of the kind.
func (c CompletionKind) String() string {
	return word(completionKindWords[:], int(c), "CompletionKind")
}

func word(words []string, value int, of string) string {
	if value >= 0 && value < len(words) && words[value] != "" {
		return words[value]
	}
	return of + "(" + strconv.Itoa(value) + ")"
}
