//go:build !linux

package waiting

import (
	"runtime"
	"time"
)

// OSThread on this system cannot count preemptions, so a thread never yields because of a
// preemption.
type OSThread struct{}

// Switches implements Thread.
func (*OSThread) Switches() uint64 { return 0 }

// TimerSlack returns 0, because the value is unknown on this system.
func TimerSlack() time.Duration { return 0 }

func osYield() { runtime.Gosched() }
