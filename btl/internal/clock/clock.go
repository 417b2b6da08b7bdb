// Package clock keeps two clock readings of a module, Now and Unpaused. The time Now is the time
// that the application passes to the module. The time Unpaused, which is for peer time-outs, does
// not advance while the process is suspended.
//
//	given:      ---+--------------+---------------------+--->
//	            pass       Deadline      (stopped)    pass
//	unpaused:   ---+--------------+                     +--->
//
// A Clock does not read the system's clock. A Clock is not safe for concurrent use.
package clock

import (
	"fmt"
	"time"

	"gobtl/internal/mono"
)

// Time is an instant in nanoseconds, as a value of Clock.Now or of Clock.Unpaused.
type Time = mono.Time

// Clock contains the times Now and Unpaused of a module. Only package clock changes a Clock.
type Clock struct {
	Now      Time          // the latest time that the module was given
	Unpaused Time          // time without the suspensions of the process, for peer time-outs
	PassAt   Time          // beginning of the latest call of Progress
	Gap      time.Duration // time between the last two calls of Progress
	Epoch    uint64        // counts the calls of Progress and the intervals between them
	Pass     uint64        // counts the calls of Progress
	// PauseMin is the smallest time between two calls of Progress that counts as a possible suspension
	// of the process.
	PauseMin time.Duration
}

// Init sets the minimum gap between two calls of Progress that counts as a possible suspension of
// the process.
func (c *Clock) Init(pauseMin time.Duration) { c.PauseMin = pauseMin }

// Times returns pointers to the fields Unpaused and Now, by which other packages read the current
// values of these fields.
func (c *Clock) Times() (unpaused, now *Time) { return &c.Unpaused, &c.Now }

// SetNow sets the time of the module to the argument "now". The argument "asked" of SetNow is the
// time for which the module had requested its next call of Progress (Module.Deadline). The time
// from the requested call of Progress to the actual call does not count towards peer time-outs,
// because the process was possibly suspended in this time.
func (c *Clock) SetNow(now, asked Time) {
	pause := max(0, now.Sub(max(c.Now, asked)))
	c.Unpaused = c.Unpaused.Add(now.Sub(c.Now) - pause)
	c.Now = now
}

// BeginPass records the beginning of a call of Progress, and the time since the previous call. The
// argument "left" of BeginPass says whether the previous call of Progress has left expired timers
// unhandled.
func (c *Clock) BeginPass(left bool) {
	if c.Now > c.PassAt {
		gap := c.Now.Sub(c.PassAt)
		if left {
			gap = max(gap, c.Gap)
		}
		c.Gap, c.PassAt = gap, c.Now
	}
	c.Epoch++
	c.Pass++
}

// EndPass records the end of a call of Progress.
func (c *Clock) EndPass() { c.Epoch++ }

// Check returns nil if c.Unpaused is at most c.Now, and an error otherwise.
func (c *Clock) Check() error {
	if c.Unpaused > c.Now {
		return fmt.Errorf("unpaused it is %d, but %d", c.Unpaused, c.Now)
	}
	return nil
}
