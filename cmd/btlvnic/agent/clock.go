//go:build linux

package agent

import (
	"time"

	"gobtl/internal/mono"
)

// clockBase is where this process' time axis has its zero.
var clockBase = time.Now()

// clock reads the monotonic clock. It is never 0.
func clock() mono.Time { return mono.Time(time.Since(clockBase)) + 1 }
