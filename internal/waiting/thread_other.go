//go:build !linux

package waiting

import (
	"runtime"
	"time"
)

// OSThread knows nothing of preemptions here: a thread never yields.
type OSThread struct{}

// Switches implements Thread.
func (*OSThread) Switches() uint64 { return 0 }

// TimerSlack is not known here.
func TimerSlack() time.Duration { return 0 }

func osYield() { runtime.Gosched() }
