package waiting

import (
	"time"

	"golang.org/x/sys/unix"
)

// OSThread is the calling thread, to which its goroutine must be locked.
type OSThread struct{ usage unix.Rusage }

// Switches implements Thread.
func (t *OSThread) Switches() uint64 {
	if unix.Getrusage(unix.RUSAGE_THREAD, &t.usage) != nil {
		return 0
	}
	return uint64(t.usage.Nivcsw)
}

// TimerSlack is how much longer than asked the kernel may let the calling thread sleep.
func TimerSlack() time.Duration {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || slack < 0 {
		return 0
	}
	return time.Duration(slack)
}

// osYield lets another thread that waits for this processor run. The call returns at once if there
// is none, so Go's scheduler need not know.
func osYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
