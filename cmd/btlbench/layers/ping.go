package layers

import (
	"runtime"
	"sync/atomic"
	"time"
)

// pingLine is a counter in a cache line of its own.
type pingLine struct {
	n atomic.Uint64
	_ [120]byte
}

// PingNs measures the present distance of two CPUs, which is the time in ns for one way through a
// cache line between two spinning threads, or 0 if threads cannot be pinned. On a virtual machine
// the distance may change from one minute to the next.
func PingNs(cpuA, cpuB int) float64 {
	const rounds, warmup = 20000, 1000
	var there, back pingLine
	var stop atomic.Bool
	ready := make(chan error)
	on := func(cpu int, fn func()) {
		runtime.LockOSThread() // the thread ends with its goroutine
		err := PinThread(cpu)
		ready <- err
		if err == nil {
			fn()
		}
	}
	go on(cpuB, func() {
		for i := uint64(1); i <= rounds && !stop.Load(); i++ {
			for there.n.Load() < i && !stop.Load() {
			}
			back.n.Store(i)
		}
	})
	if <-ready != nil {
		return 0
	}
	result := make(chan float64, 1)
	go on(cpuA, func() {
		var begin time.Time
		deadline := time.Now().Add(time.Second) // for two CPUs that are one, or taken
		for i := uint64(1); i <= rounds; i++ {
			if i == warmup {
				begin = time.Now()
			}
			there.n.Store(i)
			for spins := 1; back.n.Load() < i; spins++ {
				if spins%(1<<20) == 0 && time.Now().After(deadline) {
					result <- 0
					return
				}
			}
		}
		result <- float64(time.Since(begin).Nanoseconds()) / (rounds - warmup) / 2
	})
	defer stop.Store(true)
	if <-ready != nil {
		return 0
	}
	return <-result
}
