package waiting

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// OSThread implements Thread for the operating system's thread that calls its methods. Between two
// calls, the Go scheduler can move the calling goroutine to a different thread, unless the
// goroutine has called runtime.LockOSThread. After such a move, Switches adds to its previous
// result only those context switches of the new thread that happen after the new thread's first
// call of Switches.
type OSThread struct {
	usage  unix.Rusage
	thread int
	before uint64 // context switches of that thread that are not counted
	total  uint64
}

// Switches implements Thread.
func (t *OSThread) Switches() uint64 {
	if unix.Getrusage(unix.RUSAGE_THREAD, &t.usage) != nil {
		return t.total
	}
	return t.count(unix.Gettid(), uint64(t.usage.Nivcsw))
}

func (t *OSThread) count(thread int, switches uint64) uint64 {
	if thread != t.thread {
		t.thread, t.before = thread, switches-t.total
	}
	t.total = switches - t.before
	return t.total
}

// Stolen implements Thread. The unit of the result is a clock tick.
func (*OSThread) Stolen() uint64 {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0
	}
	defer f.Close()
	var head [256]byte
	n, _ := f.Read(head[:])
	return stolenOf(string(head[:n]))
}

// stolenOf returns the stolen CPU time of all CPUs together, which is in the first line of
// /proc/stat. If the first line of /proc/stat does not contain the stolen time, stolenOf returns 0.
func stolenOf(stat string) uint64 {
	var cpu string
	var t [8]uint64
	_, _ = fmt.Sscanln(stat, &cpu, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7])
	return t[7]
}

// TimerSlack returns the timer slack of the calling thread, which is the largest time by which the
// kernel lengthens a sleep.
func TimerSlack() time.Duration {
	slack, _ := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0) // 0 if it fails
	return time.Duration(max(slack, 0))
}

// Yield implements Thread.
func (*OSThread) Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
