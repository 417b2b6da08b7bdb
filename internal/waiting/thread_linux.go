package waiting

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// OSThread stands for the thread that calls its methods. If the calling goroutine is not locked to
// a thread, two calls may be made by different threads. If the calling thread has changed, the
// context switches of the new thread up to its first call are not counted.
type OSThread struct {
	usage unix.Rusage
	count turns
}

// The type turns computes the sum of the context switches of several threads that use a Policy one
// after another. If two consecutive calls are made by the same thread, the difference between its
// two counter values is added.
type turns struct {
	thread int
	before uint64 // counter of that thread at its latest call
	total  uint64
}

// add records the present counter of a thread, and returns the sum.
func (t *turns) add(thread int, count uint64) uint64 {
	if thread == t.thread {
		t.total += count - t.before
	}
	t.thread, t.before = thread, count
	return t.total
}

// Switches implements Thread.
func (t *OSThread) Switches() uint64 {
	if unix.Getrusage(unix.RUSAGE_THREAD, &t.usage) != nil {
		return t.count.total
	}
	return t.count.add(unix.Gettid(), uint64(t.usage.Nivcsw))
}

// Stolen implements Thread. The unit of the result is a clock tick.
func (*OSThread) Stolen() uint64 {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0
	}
	defer f.Close()
	var head [256]byte // the first line is the sum of all CPUs
	n, _ := f.Read(head[:])
	return stolenOf(head[:n])
}

// stolenOf returns the stolen time in the first line of /proc/stat, or 0 if the line does not
// contain it.
func stolenOf(stat []byte) uint64 {
	const stealField = 8
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) <= stealField {
		return 0
	}
	ticks, _ := strconv.ParseUint(string(fields[stealField]), 10, 64) // 0 if it is no number
	return ticks
}

// TimerSlack returns the time by which the kernel may lengthen a sleep of the calling thread.
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

// Yield implements Thread.
func (*OSThread) Yield() { osYield() }
