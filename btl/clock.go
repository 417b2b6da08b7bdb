package btl

import (
	"time"

	"gobtl/internal/mono"
)

// Time is an instant in nanoseconds on a monotonic axis of the caller's choice. All instants given
// to one module must be of one axis, and greater than 0: the axis begins at 0 or later.
type Time = mono.Time

// Never is the deadline of a module without a timer: only the network can wake it.
const Never = mono.Never

// clock is a module's time: the instant that its owner passed last, to Progress or to a call
// between two passes. Peer time-outs use a second axis, on which time stands still while the owner
// is stopped.
type clock struct {
	now         Time          // the latest instant that the owner has given
	nowUnpaused Time          // without the time that the owner was stopped: peers are judged by it
	passAt      Time          // when the latest pass began
	gap         time.Duration // between the latest pass and the one before
	pauseMin    time.Duration // from which on the owner may have been stopped between two passes
	sendEpoch   uint64        // counts the passes, and the times between them
}

// at sets the time in a call of the owner's, and has the next pass look at everything, for the call
// may leave work for it. An instant before the latest one counts as the latest.
func (m *Module) at(now Time) {
	m.stir()
	m.tick(now)
}

// stir makes the next pass a full one.
func (m *Module) stir() { m.restUntil, m.resumeUntil = 0, 0 }

// tick sets the time and has no other effect.
func (m *Module) tick(now Time) {
	if now > m.now {
		m.advance(now)
	}
}

func (m *Module) advance(now Time) {
	asked := Never
	if m.mayPause(now) {
		asked = m.deadline()
	}
	m.clock.advance(now, asked)
}

// mayPause says whether the latest pass is so long ago that the owner may have been stopped since.
func (c *clock) mayPause(now Time) bool { return now.Sub(c.passAt) >= c.pauseMin }

// advance moves the time on to now; asked is the Deadline that the module had until then. A process
// that was stopped has received and sent nothing, so time after that Deadline does not count
// against its peers.
func (c *clock) advance(now, asked Time) {
	pause := max(0, now.Sub(max(c.now, asked)))
	c.nowUnpaused = c.nowUnpaused.Add(now.Sub(c.now) - pause)
	c.now = now
}

// beginPass notes that a pass begins. If the previous pass left the timers to this one, the time
// between that pass and the one before it counts, too.
func (c *clock) beginPass(left bool) {
	if c.now > c.passAt {
		gap := c.now.Sub(c.passAt)
		if left {
			gap = max(gap, c.gap)
		}
		c.gap, c.passAt = gap, c.now
	}
	c.sendEpoch++
}

func (c *clock) endPass() { c.sendEpoch++ }

// Now is the latest instant that the module was given: in handlers and other callbacks, the instant
// of the pass. Outside of passes it may be long past: there pass the present instant to methods.
func (m *Module) Now() Time { return m.now }

// Now is Module.Now of the endpoint's module, for handlers that have only the endpoint.
func (ep *Endpoint) Now() Time { return ep.m.now }
