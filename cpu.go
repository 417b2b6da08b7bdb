package gobtl

import (
	"sync"
	"time"
)

// cpuUse is the CPU usage of all threads of this process, from the start of the process to an
// instant.
type cpuUse struct {
	at    time.Time
	time  time.Duration // CPU time
	taken int64         // involuntary context switches of all threads
}

const (
	// usesKept is the number of recent samples of CPU usage that a link stores, one sample for each
	// interval of LongPass.
	usesKept = 16
	// lostMost times LongPass is the longest delay that lostCPU attributes to a lack of CPU time.
	lostMost = 10
)

// cpuUses holds recent samples of CPU usage, which distinguish a handler that blocks from a handler
// that gets no CPU time. Any goroutine may call the methods of cpuUses.
type cpuUses struct {
	mu   sync.Mutex
	list []cpuUse // the oldest first
}

// The method "add" appends a sample of CPU usage, and removes the oldest sample if there are more
// than usesKept samples.
func (u *cpuUses) add(use cpuUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.list) == usesKept {
		u.list = append(u.list[:0], u.list[1:]...)
	}
	u.list = append(u.list, use)
}

// lostCPU reports whether a lack of CPU time might have caused the delay from the instant "begin"
// to "now". lostCPU returns true if, during the delay, the kernel has preempted this process and
// this process has used less than half of one CPU. For a delay of more than lostMost times the
// duration "every", lostCPU returns false.
func (u *cpuUses) lostCPU(begin time.Time, now cpuUse, every time.Duration) bool {
	if now.at.Sub(begin) > lostMost*every {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := len(u.list) - 1; i >= 0; i-- {
		if was := u.list[i]; !was.at.After(begin) {
			return now.taken > was.taken && now.time-was.time < now.at.Sub(was.at)/2
		}
	}
	return false
}
