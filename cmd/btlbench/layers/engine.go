package layers

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// engine is the goroutine that owns a side's fabric and transport. The goroutine is locked to its
// OS thread, which may be pinned to a CPU, and the process is not pinned, because other threads
// would then share the CPU with the hot loop.
type engine struct {
	jobs chan func()
	done chan struct{}
	// The function idle is called repeatedly between jobs, and must return within about a millisecond.
	// Jobs set the function idle, and nil means that the engine sleeps until the next job.
	idle func()
	// The field broken is the panic of the function idle as an error, or nil.
	broken error
}

// startEngine starts an engine on the given CPU, or on any CPU if the number is negative.
func startEngine(cpu int) (*engine, error) {
	e := &engine{jobs: make(chan func()), done: make(chan struct{})}
	makeRoom(1)
	pinned := make(chan error)
	go e.loop(cpu, pinned)
	if err := <-pinned; err != nil {
		return nil, err
	}
	return e, nil
}

// engines counts the engines that run.
var engines struct {
	sync.Mutex
	n int
}

// makeRoom adds more to the number of engines, and keeps GOMAXPROCS above that number, because a
// busy engine never leaves its P.
func makeRoom(more int) {
	engines.Lock()
	defer engines.Unlock()
	engines.n += more
	if engines.n >= runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(engines.n + 1)
	}
}

func (e *engine) loop(cpu int, pinned chan<- error) {
	defer close(e.done)
	defer makeRoom(-1)
	// Without an UnlockOSThread, the thread and its affinity end with the goroutine.
	runtime.LockOSThread()
	if cpu >= 0 {
		if err := PinThread(cpu); err != nil {
			pinned <- fmt.Errorf("cannot pin to CPU %d: %w; choose others with --cpus, or none", cpu, err)
			return
		}
	}
	pinned <- nil
	for {
		if e.idle == nil {
			job, ok := <-e.jobs
			if !ok {
				return
			}
			job()
			continue
		}
		select {
		case job, ok := <-e.jobs:
			if !ok {
				return
			}
			job()
		default:
			e.rest()
		}
	}
}

// rest calls the function idle. A panic in the function idle breaks the engine.
func (e *engine) rest() {
	e.broken = guarded(func() error {
		e.idle()
		return nil
	})
	if e.broken != nil {
		e.idle = nil
	}
}

// do runs f on the engine's thread and returns its error. A panic in f becomes an error. If the
// engine is broken, do returns the reason, and does not run f.
func (e *engine) do(f func() error) error {
	return e.always(func() error {
		if e.broken != nil {
			return e.broken
		}
		return f()
	})
}

// The method always works like do, but also runs f if the engine is broken.
func (e *engine) always(f func() error) error {
	result := make(chan error, 1)
	e.jobs <- func() { result <- guarded(f) }
	return <-result
}

// guarded runs f and returns its error. A panic in f becomes an error, and with BTLBENCH_DEBUG its
// stack is written to standard error.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if os.Getenv("BTLBENCH_DEBUG") != "" {
				fmt.Fprintf(os.Stderr, "%v\n%s", p, debug.Stack())
			}
			err = fmt.Errorf("internal error: %v (BTLBENCH_DEBUG=1 shows where)", p)
		}
	}()
	return f()
}

// stop ends the engine after the present job.
func (e *engine) stop() {
	close(e.jobs)
	<-e.done
}

// idleNap is how long an engine without a job may sleep, if idle is nil.
const idleNap = 200 * time.Microsecond
