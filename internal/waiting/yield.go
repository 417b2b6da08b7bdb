package waiting

import (
	"runtime"
	"sync/atomic"

	"gobtl/internal/mono"
)

// pollers is the number of threads of this process that wait by a Policy.
var pollers atomic.Int32

// Enter adds one to the number of threads that wait by a Policy. When the thread has finished
// waiting, it calls the returned function, which subtracts one.
func Enter() (leave func()) {
	pollers.Add(1)
	return func() { pollers.Add(-1) }
}

// In a crowded process (see Thread.Crowded), Go's network poller is checked once in netpollEvery
// yields.
const netpollEvery = 512

// The variable yields counts the yields that this process has made when it was crowded (see
// Thread.Crowded).
var yields atomic.Uint32

func crowded() bool { return int(pollers.Load()) >= runtime.GOMAXPROCS(0) }

// Crowded implements Thread.
func (*OSThread) Crowded() bool { return crowded() }

// Cede yields the CPU to other threads of the system. If the waiting threads hold all Ps of Go's
// scheduler, Cede lets other goroutines run. From time to time, Cede also lets goroutines run that
// wait for a socket.
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

// CedeBy yields to other goroutines if the process is crowded (see Thread.Crowded). CedeBy also
// yields the CPU to other threads of the system, except in the states Beside and Stolen, because a
// computing thread would take a whole time slice. CedeBy tells the policy how long a yield of the
// CPU took. The argument clock of CedeBy must be a function that returns the current time.
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
