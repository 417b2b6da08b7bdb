package runner

import "gobtl/internal/waiting"

// Waiting is how an idle driver loop waits.
type Waiting = waiting.Mode

// The ways to wait.
const (
	// WaitAdaptive polls for about the cost of a wake-up, or less after repeated fruitless polling,
	// then sleeps.
	WaitAdaptive = waiting.Adaptive
	// WaitBusy polls: the lowest latency, for all of a core.
	WaitBusy = waiting.Busy
	// WaitEvent sleeps at once: the lowest CPU use, at the price of a wake-up of some 30 us each
	// time.
	WaitEvent = waiting.Event
)

// ParseWaiting returns the Waiting of a name: "adaptive", "busy" or "event".
func ParseWaiting(name string) (Waiting, error) { return waiting.ParseMode(name) }

// Waits counts how a driver loop has waited. A polling loop yields between polls if the kernel has
// preempted it, or if its process has as many such loops as processors: Crowded counts these
// findings, Yields the yields that follow. Apart counts yields that ran into a CPU-bound neighbour:
// for a while the loop then does not yield.
type Waits = waiting.Counts
