package btl

import (
	"time"

	"gobtl/internal/mono"
)

// Time is an instant in nanoseconds on a monotonic time axis that the caller chooses. All times
// given to one module must be on the same axis and greater than 0.
type Time = mono.Time

// Never is the deadline of a module without a running timer. A module without a timer has work only
// when a packet arrives or when a method is called.
const Never = mono.Never

// clock holds a module's time, which is the latest time that was passed to Progress or to another
// method. Peer time-outs use a second time axis, which stops while the process is stopped.
type clock struct {
	now         Time          // the latest time that the module was given
	nowUnpaused Time          // time without the stops of the process, for peer time-outs
	passAt      Time          // beginning of the latest call of Progress
	gap         time.Duration // time between the latest two calls of Progress
	pauseMin    time.Duration // smallest such time that may be a stop of the process
	sendEpoch   uint64        // counts the calls of Progress, and the times between them
}

// at sets the time in a call of any method except Progress. at makes the next call of Progress
// examine the whole state, because the method may have left work. A time before the module's time
// is ignored.
func (m *Module) at(now Time) {
	m.stir()
	m.tick(now)
}

// stir makes the next call of Progress examine the whole state.
func (p *polling) stir() { p.restUntil, p.resumeUntil = 0, 0 }

// tick only sets the module's time.
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

// mayPause reports whether the latest call of Progress was so long ago that the process may have
// been stopped since then.
func (c *clock) mayPause(now Time) bool { return now.Sub(c.passAt) >= c.pauseMin }

// advance sets the module's time to now, where asked is the previous Deadline of the module. Time
// after the Deadline does not count for peer time-outs, because a process that missed its Deadline
// was stopped.
func (c *clock) advance(now, asked Time) {
	pause := max(0, now.Sub(max(c.now, asked)))
	c.nowUnpaused = c.nowUnpaused.Add(now.Sub(c.now) - pause)
	c.now = now
}

// beginPass records the beginning of a call of Progress, and the time between the latest
// two calls. The argument left of beginPass is true if the previous call of Progress did
// not handle the timers.
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

// Now returns the latest time that the module was given. In handlers and other callbacks,
// Now returns the time that was passed to Progress. Outside of callbacks, the result of Now
// may be long past, so callers must pass the present time to methods.
func (m *Module) Now() Time { return m.now }

// Now returns Module.Now of the endpoint's module, for handlers without access to the Module.
func (ep *Endpoint) Now() Time { return ep.m.now }
