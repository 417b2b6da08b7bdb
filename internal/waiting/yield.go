package waiting

import (
	"runtime"
	"sync/atomic"
)

// pollers counts the threads of this process that wait by a Policy.
var pollers atomic.Int32

// Enter notes a thread that begins to wait by a Policy, until the function that it returns is
// called.
func Enter() (leave func()) {
	pollers.Add(1)
	return func() { pollers.Add(-1) }
}

func crowded() bool { return int(pollers.Load()) >= runtime.GOMAXPROCS(0) }

// Crowded implements Thread.
func (*OSThread) Crowded() bool { return crowded() }

// Cede lets others have the processor: threads of the system, and, where all that Go may use belong
// to threads that wait, Go's own goroutines.
func Cede() {
	if crowded() {
		runtime.Gosched()
	}
	osYield()
}
