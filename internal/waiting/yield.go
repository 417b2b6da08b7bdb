package waiting

import (
	"runtime"
	"sync/atomic"

	"gobtl/internal/mono"
)

// pollers is the number of threads of this process that wait by a Policy.
var pollers atomic.Int32

// Enter counts a thread that begins to wait by a Policy, until the thread calls the returned
// function.
func Enter() (leave func()) {
	pollers.Add(1)
	return func() { pollers.Add(-1) }
}

// netpollEvery is the number of yields in a crowded process for each query of Go's network
// poller.
const netpollEvery = 512

// yields counts the yields of this process while it was crowded.
var yields atomic.Uint32

func crowded() bool { return int(pollers.Load()) >= runtime.GOMAXPROCS(0) }

// Crowded implements Thread.
func (*OSThread) Crowded() bool { return crowded() }

// Cede yields the CPU to other threads of the system. If waiting threads hold all Ps
// (scheduler slots of Go), Cede lets other goroutines run. Some calls of Cede let
// goroutines run that wait for a socket.
func Cede() {
	if crowded() {
		cedeGoroutine()
	}
	osYield()
}

// cedeGoroutine lets other goroutines of this process run.
func cedeGoroutine() {
	if yields.Add(1)%netpollEvery == 0 {
		askNetpoller()
	} else {
		runtime.Gosched()
	}
}

// CedeBy yields to other goroutines if the process is crowded, and yields the CPU to other threads
// of the system. In the states Beside and Stolen CedeBy keeps the CPU, because a computing thread
// would take a whole time slice. CedeBy tells the policy how long a yield of the CPU took. The
// function clock must return the current time.
func CedeBy(p *Policy, clock func() mono.Time) {
	before := clock()
	if p.thread.Crowded() {
		cedeGoroutine()
	}
	if before < p.apart {
		return
	}
	p.thread.Yield()
	after := clock()
	p.Yielded(after, after.Sub(before))
}
