package btl

import (
	"time"

	"gobtl/internal/mono"
)

// Time is an instant in nanoseconds on a monotonic axis of the caller's choice. All instants given
// to one module must be on the same axis and greater than 0.
type Time = mono.Time

// Never is the deadline of a module without a running timer. A module without a timer has work only
// when a packet arrives or a call is made.
const Never = mono.Never

// clock holds a module's time, the latest instant that the owner passed to Progress or to another
// call. Peer time-outs use a second axis, on which time stands still while the owner's process is
// stopped.
type clock struct {
	now         Time          // the latest instant that the owner has given
	nowUnpaused Time          // time without the owner's stops, for peer time-outs
	passAt      Time          // when the latest pass began
	gap         time.Duration // between the latest two passes
	pauseMin    time.Duration // least gap between passes that may be a stop
	sendEpoch   uint64        // counts the passes, and the times between them
}

// at sets the time in a call of the module's owner. The next call of Progress examines all state,
// because the owner's call may have left work. An instant before the latest instant counts as the
// latest instant.
func (m *Module) at(now Time) {
	m.stir()
	m.tick(now)
}

// stir makes the next call of Progress examine all state.
func (m *Module) stir() { m.restUntil, m.resumeUntil = 0, 0 }

// tick sets the module's time and has no other effect.
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

// mayPause says whether the latest call of Progress is so long ago that the owner's process may
// have been stopped after that call.
func (c *clock) mayPause(now Time) bool { return now.Sub(c.passAt) >= c.pauseMin }

// advance moves the time on to now, where asked is the Deadline that the module had before. Time
// after the Deadline asked does not count for peer time-outs, because a stopped process has neither
// received nor sent.
func (c *clock) advance(now, asked Time) {
	pause := max(0, now.Sub(max(c.now, asked)))
	c.nowUnpaused = c.nowUnpaused.Add(now.Sub(c.now) - pause)
	c.now = now
}

// beginPass records the beginning of a pass, which is a call of Progress, and the gap between the
// latest two passes. The argument left says that the previous pass did not process the timers. If
// left is true, beginPass records the longer of the latest two gaps.
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

// Now is the latest instant that the module was given. In handlers and other callbacks, Now is the
// instant that was passed to Progress. Outside of callbacks, Now may be long past, so callers must
// pass the present instant to methods.
func (m *Module) Now() Time { return m.now }

// Now is Module.Now of the endpoint's module, for handlers without access to the Module.
func (ep *Endpoint) Now() Time { return ep.m.now }
