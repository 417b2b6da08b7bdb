package btl

import "gobtl/internal/mono"

// Time is an instant in nanoseconds on a monotonic time axis that the caller chooses. All times
// given to one module must be on the same axis and greater than 0.
type Time = mono.Time

// Never is the deadline of a module without a running timer. A module without a timer has work only
// when a packet arrives or when a method is called.
const Never = mono.Never

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
	if now > m.clock.Now {
		m.advance(now)
	}
}

func (m *Module) advance(now Time) {
	asked := Never
	if m.clock.MayPause(now) {
		asked = m.deadline()
	}
	m.clock.SetNow(now, asked)
}

// Now returns the latest time that the module was given. In handlers and other callbacks,
// Now returns the time that was passed to Progress. Outside of callbacks, the result of Now
// may be long past, so callers must pass the present time to methods.
func (m *Module) Now() Time { return m.clock.Now }

// Now returns Module.Now of the endpoint's module, for handlers without access to the Module.
func (ep *Endpoint) Now() Time { return ep.m.clock.Now }
