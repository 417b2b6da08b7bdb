package waiting

import (
	"runtime"
	"sync/atomic"

	"gobtl/internal/mono"
)

// pollers counts the threads of this process that wait by a Policy.
var pollers atomic.Int32

// Enter counts a thread that begins to wait by a Policy. The thread counts until it calls the
// returned function.
func Enter() (leave func()) {
	pollers.Add(1)
	return func() { pollers.Add(-1) }
}

// netpollEvery is the number of yields in a crowded process for each yield that makes Go's
// scheduler ask the network poller. Asking the network poller costs as much as some tens of yields.
const netpollEvery = 512

// yields counts the yields of this process while it was crowded.
var yields atomic.Uint32

func crowded() bool { return int(pollers.Load()) >= runtime.GOMAXPROCS(0) }

// Crowded implements Thread.
func (*OSThread) Crowded() bool { return crowded() }

// Cede yields the processor to other threads of the system. If waiting threads hold all processors
// that Go may use, Cede also lets other goroutines run. Now and then Cede also lets goroutines run
// that wait for a socket.
func Cede() {
	if crowded() {
		if yields.Add(1)%netpollEvery == 0 {
			askNetpoller()
		} else {
			runtime.Gosched()
		}
	}
	osYield()
}

// CedeBy calls Cede, unless the policy knows of a computing neighbour that would take a time slice.
// CedeBy is for loops that yield after each search. The function clock reads the time.
func CedeBy(p *Policy, clock func() mono.Time) {
	before := clock()
	if !p.MayYield(before) {
		return
	}
	Cede()
	after := clock()
	p.Yielded(after, after.Sub(before))
}
