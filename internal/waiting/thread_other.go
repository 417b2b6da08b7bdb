//go:build !linux

package waiting

import (
	"runtime"
	"time"
)

// OSThread implements Thread, but cannot count preemptions or stolen time on this system.
type OSThread struct{}

// Switches implements Thread.
func (*OSThread) Switches() uint64 { return 0 }

// Stolen implements Thread.
func (*OSThread) Stolen() uint64 { return 0 }

// TimerSlack returns 0, because the kernel's timer slack is unknown on this system.
func TimerSlack() time.Duration { return 0 }

// Yield implements Thread.
func (*OSThread) Yield() { runtime.Gosched() }
