package btl

import (
	"time"

	"gobtl/internal/mono"
)

// Time is an instant in nanoseconds on a monotonic axis of the caller's choice. All instants given
// to one module must be of one axis, and greater than 0: the axis begins at 0 or later.
type Time = mono.Time

// Never is the deadline of a module that waits for nothing but the network.
const Never = mono.Never

// clock is what time it is for a module: what its owner has said last, in Progress or in a call
// between two passes. Peers are judged by another axis, on which the time does not go on while the
// owner was stopped.
type clock struct {
	now         Time          // the latest instant that the owner has given
	nowUnpaused Time          // without the time that the owner was stopped: peers are judged by it
	passAt      Time          // when the latest pass began
	gap         time.Duration // between the latest pass and the one before
	pauseMin    time.Duration // from which on the owner may have been stopped between two passes
	sendEpoch   uint64        // counts the passes, and the times between them
}

// at notes in a call of the owner's that it is now. An instant before the latest one counts as that
// one. What is called may be work for the next pass.
func (m *Module) at(now Time) {
	m.stir()
	m.tick(now)
}

// stir has the next pass be a whole one.
func (m *Module) stir() { m.restUntil, m.resumeUntil = 0, 0 }

// tick notes that it is now, and nothing else.
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

// advance has the time go on until now; asked is the Deadline that the module had until then. A
// process that was stopped for a while has heard nothing in that time, and asked for nothing: what
// is later than the Deadline, its peers must not be blamed for.
func (c *clock) advance(now, asked Time) {
	pause := max(0, now.Sub(max(c.now, asked)))
	c.nowUnpaused = c.nowUnpaused.Add(now.Sub(c.now) - pause)
	c.now = now
}

// beginPass notes that a pass begins. The pass before may have left it to this one to look at the
// timers: then the time between that one and the one before it counts, too.
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

// Now is the latest instant that the module was given: in handlers and other callbacks that of the
// pass. Outside of passes it may be long ago: there give the present one to what takes an instant.
func (m *Module) Now() Time { return m.now }

// Now is Module.Now of the endpoint's module, for handlers that know no more than the endpoint.
func (ep *Endpoint) Now() Time { return ep.m.now }
