//go:build !linux

package waiting

import (
	"runtime"
	"time"
)

// OSThread on this system cannot count preemptions and stolen time.
type OSThread struct{}

// Switches implements Thread.
func (*OSThread) Switches() uint64 { return 0 }

// Stolen implements Thread.
func (*OSThread) Stolen() uint64 { return 0 }

func askNetpoller() { runtime.Gosched() }

// TimerSlack returns 0, because the value is unknown on this system.
func TimerSlack() time.Duration { return 0 }

func osYield() { runtime.Gosched() }

// Yield implements Thread.
func (*OSThread) Yield() { osYield() }
