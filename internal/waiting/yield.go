package waiting

import (
	"runtime"
	"sync/atomic"

	"gobtl/internal/mono"
)

// pollers counts the threads of this process that wait by a Policy.
var pollers atomic.Int32

// Enter notes a thread that begins to wait by a Policy, until the function that it returns is
// called.
func Enter() (leave func()) {
	pollers.Add(1)
	return func() { pollers.Add(-1) }
}

// netpollEvery is how many yields of a crowded process there are for each that asks Go's network
// poller, which costs as much as some tens of them.
const netpollEvery = 512

// yields counts those of this process while it was crowded.
var yields atomic.Uint32

func crowded() bool { return int(pollers.Load()) >= runtime.GOMAXPROCS(0) }

// Crowded implements Thread.
func (*OSThread) Crowded() bool { return crowded() }

// Cede lets others have the processor: threads of the system, and, where all that Go may use belong
// to threads that wait, Go's own goroutines, now and then with those that wait for a socket.
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

// CedeBy is Cede, unless the policy knows of a neighbour that would take a slice for it. It is for
// loops that yield between all their searches; clock reads the time.
func CedeBy(p *Policy, clock func() mono.Time) {
	before := clock()
	if !p.MayYield(before) {
		return
	}
	Cede()
	after := clock()
	p.Yielded(after, after.Sub(before))
}
