package waiting

import (
	"time"

	"golang.org/x/sys/unix"
)

// OSThread is the thread that calls its methods. The calling thread may change between two calls if
// the goroutine is not locked to a thread. If the calling thread has changed, context switches of
// the new thread before its first call do not count.
type OSThread struct {
	usage unix.Rusage
	count turns
}

// Switches implements Thread.
func (t *OSThread) Switches() uint64 {
	if unix.Getrusage(unix.RUSAGE_THREAD, &t.usage) != nil {
		return t.count.total
	}
	return t.count.add(unix.Gettid(), uint64(t.usage.Nivcsw))
}

// TimerSlack is how much longer than requested the kernel may let the calling thread sleep.
func TimerSlack() time.Duration {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || slack < 0 {
		return 0
	}
	return time.Duration(slack)
}

// osYield lets another thread that waits for this processor run. If no other thread waits for this
// processor, osYield returns at once. The system call therefore bypasses Go's scheduler.
func osYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
