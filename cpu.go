package gobtl

import (
	"sync"
	"time"
)

// cpuUse is the use of CPUs by all threads of this process, from the start of the process to an
// instant.
type cpuUse struct {
	at    time.Time
	time  time.Duration // CPU time
	taken int64         // number of times that the kernel took a CPU from a thread that could run
}

const (
	// usesKept is the number of recent uses that a link keeps, one for each LongPass.
	usesKept = 16
	// lostMost times LongPass is the longest delay that the loss of a CPU explains.
	lostMost = 10
)

// cpuUses holds the recent uses of CPUs, by which a handler that blocks is distinguished from a
// handler that has no CPU. Any goroutine may call the methods.
type cpuUses struct {
	mu   sync.Mutex
	list []cpuUse // the oldest first
}

// add adds a use, and removes the oldest one if there are more than usesKept.
func (u *cpuUses) add(use cpuUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.list) == usesKept {
		u.list = append(u.list[:0], u.list[1:]...)
	}
	u.list = append(u.list, use)
}

// lostCPU reports whether a delay from the instant "begin" to "now" may have been a loss of the
// CPU. During such a delay the kernel has taken a CPU from this process, and this process has used
// less than half of one CPU. A delay of more than lostMost times "every" is no loss of the CPU.
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
