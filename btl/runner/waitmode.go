package runner

import "gobtl/internal/waiting"

// Waiting is how a loop waits that has found nothing to do.
type Waiting = waiting.Mode

// The ways to wait.
const (
	// WaitAdaptive polls for about as long as a wake-up costs, less where that has been in vain
	// again and again, then sleeps.
	WaitAdaptive = waiting.Adaptive
	// WaitBusy polls: the lowest latency, for all of a core.
	WaitBusy = waiting.Busy
	// WaitEvent sleeps at once: the least of a core, for a wake-up of some 30 us each time.
	WaitEvent = waiting.Event
)

// ParseWaiting returns the Waiting of a name: "adaptive", "busy" or "event".
func ParseWaiting(name string) (Waiting, error) { return waiting.ParseMode(name) }

// Waits counts how a loop has waited. A loop that polls yields between two polls where the kernel
// has taken its processor away for another, or where a process has as many such loops as
// processors: Crowded counts how often that was found, Yields what came of it. Apart counts how
// often a yield has shown a neighbour that computes: for a while nothing is yielded to it.
type Waits = waiting.Counts
