package bounded

import (
	"fmt"
	"sync"
	"time"
)

// LinesPerSecond is the largest number of log lines that a Rate allows in a second.
const LinesPerSecond = 10

// Rate limits the number of log lines per second for events that untrusted hosts can cause as often
// as they like, such as refused connections. The zero value is ready for use. Any goroutine may
// call the methods of a Rate.
type Rate struct {
	lock  sync.Mutex // guards the fields below
	until time.Time  // end of the current second
	lines int        // lines of the current second
	held  uint64     // lines that were left out and are not told yet
}

// Allow reports whether the caller may write a log line now without exceeding LinesPerSecond. If
// Allow returns true, the caller must write the text "before" in front of the log line. The text
// "before" says how many lines were omitted after the previous written line, and is empty if no
// line was omitted.
func (r *Rate) Allow() (before string, ok bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if now := time.Now(); !now.Before(r.until) {
		r.until, r.lines = now.Add(time.Second), 0
	}
	if r.lines == LinesPerSecond {
		r.held++
		return "", false
	}
	r.lines++
	return r.takeHeld("; "), true
}

// Rest returns a text with the number of log lines that were omitted after the latest written line,
// or an empty text if no line was omitted. A program should write the result of Rest to its log
// before the program ends.
func (r *Rate) Rest() string {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.takeHeld("")
}

// takeHeld returns a text with the number of omitted log lines, and sets this number to zero. The
// caller must hold the lock.
func (r *Rate) takeHeld(end string) string {
	n := r.held
	if r.held = 0; n == 0 {
		return ""
	}
	return fmt.Sprintf("%d more like this were left out%s", n, end)
}
