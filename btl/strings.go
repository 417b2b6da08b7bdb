package btl

import "gobtl/btl/internal/setting"

var eventWords = [...]string{
	EventConnected: "connected",
	EventClosed:    "closed",
	EventFailed:    "failed",
}

// String returns the name of the event.
func (e Event) String() string { return setting.Word(eventWords[:], int(e), "Event") }

var statusWords = [...]string{
	Done:   "done",
	Queued: "queued",
}

// String returns the name of the status.
func (s Status) String() string { return setting.Word(statusWords[:], int(s), "Status") }

var completionKindWords = [...]string{
	CompletionSend:  "send",
	CompletionFlush: "flush",
	CompletionEvent: "event",
	CompletionRoom:  "room",
}

// String returns the name of the kind.
func (c CompletionKind) String() string {
	return setting.Word(completionKindWords[:], int(c), "CompletionKind")
}
