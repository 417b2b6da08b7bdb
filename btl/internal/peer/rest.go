package peer

import "gobtl/internal/mono"

// Rest contains the time until which calls of Progress only poll, because no timer, ACK or send is
// due before.
type Rest struct {
	Until       mono.Time // until this time, a call that finds no packet only polls
	resumeUntil mono.Time // the value of Until before the latest call of Interrupt
	exchanged   bool      // express has sent a message since the latest call of Interrupt
	AskEnded    bool      // an operation has got its reply since the latest call of Interrupt
}

// Stir makes the next call of Progress examine the whole state of the module.
func (rs *Rest) Stir() { rs.Until, rs.resumeUntil = 0, 0 }

// Set sets the time until which calls of Progress only poll.
func (rs *Rest) Set(until mono.Time) { rs.Until = until }

// Interrupt is called when a poll has found a completion. Interrupt ends the time in which calls of
// Progress only poll. If the handler of the received packet has only sent a reply, the caller
// restores the field Until from the result of ResumeUntil.
func (rs *Rest) Interrupt() {
	rs.resumeUntil, rs.exchanged, rs.AskEnded = rs.Until, false, false
	rs.Until = 0
}

// ResumeUntil returns the value that Until had before the call of Interrupt. ResumeUntil returns 0
// if the next call of Progress must do more than poll.
func (rs *Rest) ResumeUntil() mono.Time {
	if !rs.exchanged {
		return 0
	}
	return rs.resumeUntil
}
