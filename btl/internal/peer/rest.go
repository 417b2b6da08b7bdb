package peer

import "gobtl/internal/mono"

// Rest holds the time until which calls of Progress only poll, because nothing else is due. Rest
// also holds the state that one call of Progress leaves to the next calls.
type Rest struct {
	until       mono.Time // until this time a call that finds nothing only polls
	resumeUntil mono.Time // until, before the latest early delivery
	pass        uint64    // number of calls of Progress
	exchanged   bool      // a message was sent at once after the latest early delivery
	askEnded    bool      // an operation has got its reply since the last reset
}

// Stir makes the next call of Progress examine the whole state.
func (rs *Rest) Stir() { rs.until, rs.resumeUntil = 0, 0 }

// BeginPass counts a call of Progress.
func (rs *Rest) BeginPass() { rs.pass++ }

// Until is the time until which calls of Progress only poll.
func (rs *Rest) Until() mono.Time { return rs.until }

// Set sets the time until which calls of Progress only poll.
func (rs *Rest) Set(until mono.Time) { rs.until = until }

// Interrupt ends the time of mere polls, because a poll has found a completion. If the handler of
// this completion only sends an answer, the time of mere polls may continue (ResumeUntil).
func (rs *Rest) Interrupt() {
	rs.resumeUntil, rs.exchanged, rs.askEnded = rs.until, false, false
	rs.until = 0
}

// ResumeUntil returns the end of the time of mere polls before Interrupt, or 0 if this time must
// not continue.
func (rs *Rest) ResumeUntil() mono.Time {
	if !rs.exchanged {
		return 0
	}
	return rs.resumeUntil
}

// AskEnded reports whether an operation has got its reply since Interrupt.
func (rs *Rest) AskEnded() bool { return rs.askEnded }
