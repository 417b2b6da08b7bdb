package btl

import (
	"gobtl/btl/internal/peer"
	"gobtl/internal/words"
)

// String returns the name of the event.
func (e Event) String() string { return peer.Event(e).String() }

var statusWords = [...]string{
	Done:   "done",
	Queued: "queued",
}

// String returns the name of the status.
func (s Status) String() string { return words.Name(statusWords[:], int(s), "Status") }

// String returns the name of the kind.
func (c CompletionKind) String() string { return peer.NoteKind(c).String() }
