package waiting

import (
	"time"

	"golang.org/x/sys/unix"
)

// OSThread is the thread that calls its methods. The calling thread may change between two calls
// if the goroutine is not locked to a thread. If the calling thread has changed, context switches
// of the new thread before its first call are not counted.
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

// TimerSlack returns by how much the kernel may lengthen a sleep of the calling thread.
func TimerSlack() time.Duration {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || slack < 0 {
		return 0
	}
	return time.Duration(slack)
}

// osYield lets another thread that waits for this CPU run. If no other thread waits for this CPU,
// osYield returns at once.
func osYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
