//go:build linux

package agent

import (
	"time"

	"golang.org/x/sys/unix"

	"gobtl/internal/mono"
)

// clockBase is where this process' time axis has its zero.
var clockBase = time.Now()

// idling decides when a thread that finds nothing to do goes to sleep: the next batch of a stream
// is mostly there before a sleeper would have woken up. Meanwhile others may have the processor.
type idling struct{ since mono.Time }

// spin is how long a thread looks for more. Shorter ones cost a stream a quarter of its rate.
const spin = 80 * time.Microsecond

// over says, after a pass that has done n things, whether it is time to sleep.
func (i *idling) over(n int) bool {
	if n > 0 {
		i.since = 0
		return false
	}
	if spin == 0 {
		return true
	}
	now := clock()
	if i.since == 0 {
		i.since = now
	}
	if now.Sub(i.since) >= spin {
		i.since = 0
		return true
	}
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	return false
}

// clock reads the monotonic clock. It is never 0.
func clock() mono.Time { return mono.Time(time.Since(clockBase)) + 1 }
