package btl

import (
	"gobtl/internal/mono"
)

// Time is an instant in nanoseconds on a monotonic time axis that the caller chooses. All times
// given to one module must be on the same time axis and greater than 0.
type Time = mono.Time

// Never is the deadline of a module without a running timer. A module without a timer has work only
// when a packet arrives or when a method is called.
const Never = mono.Never

// Now returns the latest time that the caller has passed to the module. In handlers and callbacks,
// Now returns the time that was passed to Progress. Outside of callbacks, the result of Now can be
// long past, so callers must take the present time from a clock before they pass it to methods.
func (m *Module) Now() Time { return m.all.Clock.Now }

// Now returns the same time as Module.Now, for handlers that know only their endpoint.
func (ep *Endpoint) Now() Time { return ep.c.All.Clock.Now }
