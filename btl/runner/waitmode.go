package runner

import "gobtl/internal/waiting"

// Waiting is the way in which an idle driving goroutine waits.
type Waiting = waiting.Mode

// The ways to wait.
const (
	// WaitAdaptive polls for about the time that a wake-up costs, and then sleeps. After
	// repeated fruitless polling the polling time is shorter.
	WaitAdaptive = waiting.Adaptive
	// WaitBusy always polls, which gives the lowest latency and occupies a core.
	WaitBusy = waiting.Busy
	// WaitEvent sleeps at once, which uses the least CPU time. Each wake-up takes about 30 us.
	WaitEvent = waiting.Event
)

// ParseWaiting returns the Waiting of a name: "adaptive", "busy" or "event". Other names are
// errors.
func ParseWaiting(name string) (Waiting, error) { return waiting.ParseMode(name) }

// Waits counts how a driving goroutine has waited. A polling goroutine yields between polls if
// the kernel has preempted it, or if its process has as many polling goroutines as processors.
// Crowded counts how often a polling goroutine found one of these two reasons, and Yields counts
// its yields. Apart counts yields that gave the processor to a CPU-bound neighbour. After a yield
// counted in Apart, the goroutine does not yield for a while.
type Waits = waiting.Counts
